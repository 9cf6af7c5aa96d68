"""The corpus that never ends and whose loss floor is known."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.data import Corpus
from simulator.data.phrases import exact_nll, make_tables, predicted_entropy
from simulator.specs.codec import decode, encode
from simulator.specs.data import SyntheticSpec, TokenizerChoice, ValidationSpec
from simulator.specs.errors import SpecError
from tests.simulator.data.data_makers import corpus_of, synthetic, write_text

IDS = TokenizerChoice(kind="none")


def _corpus(folder: Path, num_sequences: int = 4, **changes: int) -> Corpus:
    validation = [ValidationSpec(name="v", num_sequences=num_sequences)]
    return corpus_of(folder, synthetic(), IDS, validation=validation, **changes)


@pytest.mark.parametrize("extra", [1, 2, 5])
def test_windows_begin_on_a_block(tmp_path: Path, extra: int) -> None:
    batch = _corpus(tmp_path, num_extra_tokens=extra).batch(0, num_sequences=50, seed=0)
    assert batch.shape == (50, 8 + extra)
    assert batch.flags.c_contiguous
    is_cue = batch < 16
    assert np.array_equal(is_cue, np.broadcast_to(np.arange(8 + extra) % 4 < 2, batch.shape))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.integers(0, 10**9), st.integers(0, 2**40))
def test_batch_is_a_pure_function_of_step_and_seed(tmp_path: Path, step: int, seed: int) -> None:
    one, other = _corpus(tmp_path), _corpus(tmp_path)
    other.batch(step + 1, num_sequences=3, seed=seed)
    batch = one.batch(step, num_sequences=3, seed=seed)
    assert np.array_equal(batch, other.batch(step, num_sequences=3, seed=seed))
    assert not np.array_equal(batch, one.batch(step + 1, num_sequences=3, seed=seed))
    assert not np.array_equal(batch, one.batch(step, num_sequences=3, seed=seed + 1))


def test_validation_is_fixed_and_apart_from_training(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 8)
    tokens = corpus.validation("v").tokens
    assert np.array_equal(tokens, _corpus(tmp_path, 8).validation("v").tokens)
    for seed in range(3):
        assert not np.array_equal(tokens, corpus.batch(seed, num_sequences=8, seed=seed))


def test_exact_nll_is_that_of_the_predicted_tokens(tmp_path: Path) -> None:
    held_out = _corpus(tmp_path).validation("v")
    language = synthetic().synthetic
    assert language is not None
    whole = exact_nll(make_tables(language), held_out.tokens)
    assert held_out.exact_nll is not None
    assert held_out.exact_nll.shape == (4, 8)
    assert np.array_equal(held_out.exact_nll, whole[:, 1:9])


def test_mean_exact_nll_agrees_with_the_exact_entropy(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, 40_000)
    held_out = corpus.validation("v")
    assert held_out.exact_nll is not None
    assert held_out.exact_entropy == corpus.exact_entropy
    means = held_out.exact_nll.mean(axis=1)
    assert corpus.exact_entropy == pytest.approx(means.mean(), abs=4 * means.std() / 200)


def test_validation_may_speak_another_language_of_the_same_ids(tmp_path: Path) -> None:
    other = synthetic(repeat=0.0)
    validation = [
        ValidationSpec(name="v", num_sequences=2),
        ValidationSpec(name="no_bursts", num_sequences=2, sources=(other,)),
    ]
    corpus = corpus_of(tmp_path, synthetic(), IDS, validation=validation)
    assert other.synthetic is not None
    floor = predicted_entropy(make_tables(other.synthetic), 2)
    assert corpus.validation("no_bursts").exact_entropy == floor
    assert corpus.validation("v").exact_entropy != floor


def test_it_never_runs_out_and_names_its_vocabulary(tmp_path: Path) -> None:
    summary = _corpus(tmp_path).describe()
    assert summary.num_train_tokens is None
    assert summary.vocab_size == 24
    assert decode(type(summary), encode(summary)) == summary


@pytest.mark.parametrize(("seq_len", "near"), [(10, "8 or 12"), (3, "4")])
def test_length_that_cuts_a_block_is_refused(tmp_path: Path, seq_len: int, near: str) -> None:
    with pytest.raises(
        SpecError, match=rf"batch\.seq_len must be a multiple .* \(4 tokens\); .*Use {near}\."
    ):
        _corpus(tmp_path, seq_len=seq_len)


def test_mixture_with_a_synthetic_source_is_refused(tmp_path: Path) -> None:
    for sources in ([synthetic(), write_text(tmp_path)], [synthetic(), synthetic(table_seed=1)]):
        with pytest.raises(SpecError, match=r"data\.sources must be one synthetic source alone"):
            corpus_of(tmp_path, sources, IDS)


def test_validation_on_other_kinds_or_more_ids_is_refused(tmp_path: Path) -> None:
    for source, message in (
        (write_text(tmp_path), "must be one synthetic source alone"),
        (synthetic(num_answers=9), "must not need more than 24 ids; got 25"),
    ):
        validation = [ValidationSpec(name="v", num_sequences=1, sources=(source,))]
        with pytest.raises(SpecError, match=message):
            corpus_of(tmp_path, synthetic(), IDS, validation=validation)


def test_tokenizer_for_a_synthetic_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"data\.tokenizer\.kind must be 'none'.*got 'bytes'"):
        corpus_of(tmp_path, synthetic())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_phrases": 17, "num_cues": 4}, r"num_phrases must lie in \[1, num_cues\^2 = 16\]"),
        ({"noise": 1.0}, "noise must lie in"),
        ({"repeat": -0.1}, "repeat must lie in"),
        ({"num_answers": 1}, "num_answers must be >= 2"),
        ({"alpha": 0.0}, "alpha must be positive"),
    ],
)
def test_language_that_cannot_exist_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        SyntheticSpec(**changes)  # type: ignore[arg-type]
