"""Training sequences and held-out sequences of text and ids."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import entr

from simulator.data import Corpus
from simulator.specs.data import SourceSpec, TokenizerChoice, ValidationSpec
from simulator.specs.errors import DataError, SpecError
from tests.simulator.data.data_makers import (
    HELD_OUT,
    corpus_of,
    counting_ids,
    ids_of,
    write_raw,
    write_text,
)

VOCAB = ids_of(10**6)


def _starts(corpus: Corpus, num_steps: int, num_sequences: int, seed: int = 0) -> list[int]:
    """First ids, which are the places in the file where ids count up from 0."""
    return [
        int(row[0])
        for step in range(num_steps)
        for row in corpus.batch(step, num_sequences=num_sequences, seed=seed)
    ]


def test_a_sequence_is_the_ids_of_the_file(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1000), VOCAB, num_extra_tokens=2)
    batch = corpus.batch(3, num_sequences=5, seed=1)
    assert batch.shape == (5, 10)
    assert batch.dtype == np.int64
    assert np.array_equal(batch, batch[:, :1] + np.arange(10))


def test_an_epoch_predicts_every_training_token_once(tmp_path: Path) -> None:
    """karpathy/build-nanogpt#41: 1,000 tokens are no multiple of anything here."""
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1004), VOCAB)
    assert corpus.num_train_tokens == 112 * 8  # 903 training tokens, one more than 112 windows
    starts = _starts(corpus, 28, 4)
    assert sorted(starts) == list(range(0, 112 * 8, 8))


def test_epochs_do_not_repeat_their_order(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1004), VOCAB)
    starts = _starts(corpus, 112, 2)
    first, second = starts[:112], starts[112:]
    assert sorted(first) == sorted(second)
    assert first != second
    assert first != sorted(first)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, 10**9), st.integers(1, 9), st.integers(0, 2**40))
def test_batch_is_a_pure_function_of_step_and_seed(
    tmp_path: Path, step: int, num_sequences: int, seed: int
) -> None:
    def make() -> Corpus:
        return corpus_of(tmp_path, counting_ids(tmp_path, 500), VOCAB)

    corpus = make()
    batch = corpus.batch(step, num_sequences=num_sequences, seed=seed)
    corpus.batch(step + 1, num_sequences=num_sequences, seed=seed)
    again = make().batch(step, num_sequences=num_sequences, seed=seed)
    assert np.array_equal(batch, again)


def test_batch_size_does_not_change_the_row_of_sequences(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 500), VOCAB)
    assert _starts(corpus, 12, 2) == _starts(corpus, 3, 8) == _starts(corpus, 24, 1)


def test_seeds_give_different_orders(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1000), VOCAB)
    assert _starts(corpus, 10, 4, seed=0) != _starts(corpus, 10, 4, seed=1)


def test_mixture_keeps_its_weights_whatever_the_lengths(tmp_path: Path) -> None:
    long = replace(counting_ids(tmp_path, 5000, name="long.bin"), weight=1.0)
    short_ids = np.arange(500_000, 500_400)
    short = replace(write_raw(tmp_path, short_ids, "int32", "short.bin"), weight=3.0)
    corpus = corpus_of(tmp_path, [long, short], VOCAB)
    starts = np.array(_starts(corpus, 250, 4))
    assert (starts >= 500_000).sum() == 750
    of_short = starts[starts >= 500_000]
    num_windows = 44  # 360 training tokens
    assert len(set(of_short[:num_windows].tolist())) == num_windows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    num_ids=st.integers(400, 2000),
    holdout=st.floats(0.2, 0.7),
    seq_len=st.integers(1, 20),
    extra=st.integers(1, 3),
    count=st.integers(1, 3),
)
def test_training_never_sees_held_out_tokens(
    tmp_path: Path, num_ids: int, holdout: float, seq_len: int, extra: int, count: int
) -> None:
    shape = {"seq_len": seq_len, "num_extra_tokens": extra}
    corpus = corpus_of(
        tmp_path,
        counting_ids(tmp_path, num_ids),
        VOCAB,
        validation=[ValidationSpec(name="v", num_sequences=count)],
        holdout_fraction=holdout,
        **shape,
    )
    held_out = corpus.validation("v").tokens
    epoch = (corpus.num_train_tokens or 0) // seq_len
    trained = corpus.batch(0, num_sequences=epoch, seed=0)
    assert trained.max() < held_out.min()
    assert held_out.min() >= num_ids - np.ceil(num_ids * holdout)
    assert len(np.unique(held_out)) == held_out.size


def test_validation_is_spread_over_the_tail_and_fixed(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1000), VOCAB)
    tokens = corpus.validation("held_out").tokens
    assert tokens[:, 0].tolist() == [900, 930, 960, 991]
    assert np.array_equal(tokens, tokens[:, :1] + np.arange(9))
    assert corpus.validation_names == ("held_out",)


def test_validation_of_a_mixture_follows_the_weights(tmp_path: Path) -> None:
    one = replace(counting_ids(tmp_path, 5000, name="a.bin"), weight=1.0)
    other = write_raw(tmp_path, np.arange(500_000, 505_000), "int32", "b.bin")
    validation = [ValidationSpec(name="v", num_sequences=20)]
    corpus = corpus_of(tmp_path, [one, replace(other, weight=3.0)], VOCAB, validation=validation)
    assert (corpus.validation("v").tokens[:, 0] >= 500_000).sum() == 15


def test_validation_sets_with_sources_of_their_own_read_all_of_them(tmp_path: Path) -> None:
    own = write_raw(tmp_path, np.arange(7000, 7045), "int32", "own.bin")
    validation = [*HELD_OUT, ValidationSpec(name="other", num_sequences=5, sources=(own,))]
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1000), VOCAB, validation=validation)
    assert np.array_equal(np.sort(corpus.validation("other").tokens.ravel()), np.arange(7000, 7045))
    assert set(corpus.describe().validation_sources) == {"other"}


def test_validating_on_training_files_is_refused(tmp_path: Path) -> None:
    source = counting_ids(tmp_path, 1000)
    (tmp_path / "link.bin").symlink_to(tmp_path / "ids.bin")
    (tmp_path / "copy.bin").write_bytes((tmp_path / "ids.bin").read_bytes())
    for path in ("ids.bin", "link.bin", "copy.bin"):
        own = ValidationSpec(name="v", num_sequences=1, sources=(replace(source, path=path),))
        with pytest.raises(SpecError, match=r"data\.validation\.sources must not be trained on"):
            corpus_of(tmp_path, source, VOCAB, validation=[own])


def test_reading_a_file_through_two_sources_is_refused(tmp_path: Path) -> None:
    write_text(tmp_path, "a.txt")
    lone = write_text(tmp_path, "b.txt")
    with pytest.raises(SpecError, match=r"must not name a file that another source reads.*b\.txt"):
        corpus_of(tmp_path, [replace(lone, path=".", pattern="*.txt"), lone])


def test_bytes_have_one_byte_per_token(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, write_text(tmp_path))
    assert corpus.validation("held_out").bytes_per_token == pytest.approx(1)


def test_bytes_per_token_of_subwords_are_those_of_the_tail(tmp_path: Path) -> None:
    """Words that compress come first, digits that do not come last."""
    digits = np.random.default_rng(0).integers(0, 10**9, size=40_000)
    text = "the cat sat on the mat. the dog ran.\n" * 20_000 + "\n".join(map(str, digits))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    source = SourceSpec(kind="text", path="a.txt")
    corpus = corpus_of(
        tmp_path, source, TokenizerChoice(kind="bpe", vocab_size=300), holdout_fraction=0.2
    )
    (library,) = (tmp_path / "cache" / "tokenizers").glob("*/tokenizer.json")
    (stored,) = (tmp_path / "cache" / "tokens").glob("*/ids.bin")
    ids = np.fromfile(stored, dtype="<u2")
    tail = ids[ids.size - -(-ids.size // 5) :].tolist()
    num_bytes = len(tokenizers.Tokenizer.from_file(str(library)).decode(tail).encode())
    whole = len(text) / ids.size
    found = corpus.validation("held_out").bytes_per_token
    assert found == pytest.approx(num_bytes / len(tail), rel=0.005)
    assert abs(whole - num_bytes / len(tail)) > 0.2 * whole


def test_ids_without_text_have_no_bytes_per_token(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, counting_ids(tmp_path, 1000), VOCAB)
    held_out = corpus.validation("held_out")
    assert held_out.bytes_per_token is None
    assert held_out.exact_nll is None
    assert corpus.exact_entropy is None


def test_unigram_entropy_is_of_training_tokens_by_weight(tmp_path: Path) -> None:
    """Two ids evenly in one source, a third one alone in the other, the tail full of a fourth."""
    half = [1, 2] * 450 + [3] * 100
    one = replace(write_raw(tmp_path, half, name="a.bin"), weight=1.0)
    other = replace(write_raw(tmp_path, [0] * 900 + [3] * 100, name="b.bin"), weight=3.0)
    corpus = corpus_of(tmp_path, [one, other], ids_of(5))
    assert corpus.unigram_entropy == pytest.approx(entr([0.75, 0.125, 0.125]).sum())


def test_corpus_shorter_than_a_window_is_refused(tmp_path: Path) -> None:
    """karpathy/nanoGPT PR#292: 100 tokens, windows of 256."""
    source = counting_ids(tmp_path, 100)
    with pytest.raises(DataError, match=r"a window of 257 tokens before its held-out tail.*90"):
        corpus_of(tmp_path, source, VOCAB, seq_len=256)


def test_held_out_tail_shorter_than_its_windows_is_refused(tmp_path: Path) -> None:
    source = counting_ids(tmp_path, 300)
    with pytest.raises(
        DataError, match=r"must give 4 windows of 9 tokens .*'held_out'; got 'room for 3"
    ):
        corpus_of(tmp_path, source, VOCAB)


def test_description_names_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    write_text(tmp_path, "b.txt")
    corpus = corpus_of(tmp_path, replace(write_text(tmp_path, "b.txt"), path=".", pattern="*.txt"))
    summary = corpus.describe()
    (source,) = summary.sources
    assert (source.num_files, source.num_documents, source.num_empty_documents) == (2, 1, 1)
    assert (source.num_tokens, source.text_bytes) == (2000, 2000)
    assert summary.tokenizer == "bytes"
    assert summary.vocab_size == 256
