"""What a user wrote becomes data that every run opens alike, or an error in four parts."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest

from simulator.data import open_corpus, resolve_data
from simulator.specs.data import DataSpec, SourceSpec, TokenizerChoice, ValidationSpec
from simulator.specs.errors import DataError, SpecError, UserInputError
from tests.simulator.data.data_makers import (
    BYTES,
    HELD_OUT,
    corpus_of,
    counting_ids,
    ids_of,
    resolve,
    synthetic,
    write_raw,
    write_text,
)


def _open(folder: Path, spec: DataSpec) -> None:
    open_corpus(spec, seq_len=8, num_extra_tokens=1, cache=folder / "cache")


def test_paths_become_absolute_and_sizes_are_filled(tmp_path: Path) -> None:
    spec = resolve(tmp_path, replace(write_text(tmp_path), path="./x/../a.txt"))
    assert spec.sources[0].path == str(tmp_path / "a.txt")
    assert spec.tokenizer.vocab_size == 256
    assert len(spec.content_sha256) == 64


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (write_text(folder), BYTES),
        lambda folder: (write_text(folder), TokenizerChoice(kind="bpe", vocab_size=257)),
        lambda folder: (counting_ids(folder, 1000), ids_of(1000)),
        lambda folder: (synthetic(), TokenizerChoice(kind="none")),
    ],
)
def test_resolving_again_gives_the_same_with_and_without_the_cache(
    tmp_path: Path, make: Callable[[Path], tuple[SourceSpec, TokenizerChoice]]
) -> None:
    source, tokenizer = make(tmp_path)
    first = resolve(tmp_path, source, tokenizer)
    assert resolve(tmp_path, source, tokenizer) == first
    (tmp_path / "cache").rename(tmp_path / "old")
    assert resolve(tmp_path, source, tokenizer) == first


def test_hash_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    spec = resolve(tmp_path, write_text(tmp_path, "a.txt"))
    assert resolve(tmp_path, write_text(tmp_path, "b.txt")).content_sha256 == spec.content_sha256


@pytest.mark.parametrize("kind", ["text", "synthetic"])
def test_data_resolved_for_one_window_open_for_another(tmp_path: Path, kind: str) -> None:
    """The rungs of a ladder may differ in sequence length and in modules that look further."""
    if kind == "text":
        spec = resolve(tmp_path, write_text(tmp_path))
    else:
        spec = resolve(tmp_path, synthetic(), TokenizerChoice(kind="none"))
    corpus = open_corpus(spec, seq_len=16, num_extra_tokens=3, cache=tmp_path / "cache")
    assert corpus.batch(0, num_sequences=2, seed=0).shape == (2, 19)


def test_hash_covers_ids_tokenizer_and_held_out_share(tmp_path: Path) -> None:
    source = write_text(tmp_path)
    specs = [
        resolve(tmp_path, source),
        resolve(tmp_path, source, holdout_fraction=0.11),
        resolve(tmp_path, source, TokenizerChoice(kind="bpe", vocab_size=257)),
        resolve(tmp_path, write_text(tmp_path, "b.txt", num_bytes=2001)),
    ]
    assert len({spec.content_sha256 for spec in specs}) == len(specs)


def test_changed_file_is_refused_on_opening(tmp_path: Path) -> None:
    spec = resolve(tmp_path, write_text(tmp_path))
    (tmp_path / "a.txt").write_text("x" * 2000)
    with pytest.raises(DataError, match=r"must be the data that were resolved.*a new study"):
        _open(tmp_path, spec)


def test_touched_file_of_the_same_content_is_opened(tmp_path: Path) -> None:
    spec = resolve(tmp_path, write_text(tmp_path))
    os.utime(tmp_path / "a.txt", ns=(1, 1))
    _open(tmp_path, spec)


def test_lost_cache_is_made_again_on_opening(tmp_path: Path) -> None:
    spec = resolve(tmp_path, write_text(tmp_path), TokenizerChoice(kind="bpe", vocab_size=257))
    (tmp_path / "cache").rename(tmp_path / "old")
    _open(tmp_path, spec)


def test_damaged_cache_is_made_again_on_opening(tmp_path: Path) -> None:
    source = write_text(tmp_path)
    spec = resolve(tmp_path, source)
    wanted = corpus_of(tmp_path, source).batch(0, num_sequences=4, seed=0)
    (path,) = (tmp_path / "cache" / "tokens").glob("*/ids.bin")
    path.write_bytes(b"x" * 2000)
    for manifest in (tmp_path / "cache" / "manifests").iterdir():
        manifest.write_bytes(b"\xff")
    corpus = open_corpus(spec, seq_len=8, num_extra_tokens=1, cache=tmp_path / "cache")
    assert np.array_equal(corpus.batch(0, num_sequences=4, seed=0), wanted)


def _resolve_at_once(folder: Path, barrier: Barrier, found: SimpleQueue[str]) -> None:
    barrier.wait(timeout=60)
    source = SourceSpec(kind="text", path="a.txt")
    spec = resolve(folder, source, TokenizerChoice(kind="bpe", vocab_size=257))
    found.put(spec.content_sha256)


def test_two_processes_may_resolve_at_once(tmp_path: Path) -> None:
    write_text(tmp_path, num_bytes=200_000)
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(2), context.SimpleQueue()
    arguments = (tmp_path, barrier, found)
    processes = [context.Process(target=_resolve_at_once, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert found.get() == found.get()
    assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 1


@pytest.mark.parametrize(("kind", "suffix"), [("npy", "npy"), ("raw", "bin")])
def test_shards_of_ids_are_joined(tmp_path: Path, kind: str, suffix: str) -> None:
    for name, begin in (("a", 0), ("b", 500)):
        ids = np.arange(begin, begin + 500, dtype=np.int32)
        if kind == "npy":
            np.save(tmp_path / f"{name}.npy", ids)
        else:
            ids.tofile(tmp_path / f"{name}.bin")
    source = SourceSpec(kind=kind, path=".", pattern=f"*.{suffix}", dtype="int32")  # type: ignore[arg-type]
    corpus = corpus_of(tmp_path, source, ids_of(1000))
    epoch = corpus.batch(0, num_sequences=(corpus.num_train_tokens or 0) // 8, seed=0)
    assert np.array_equal(np.unique(epoch[:, :-1]), np.arange(112 * 8))


@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
@pytest.mark.parametrize("wrong", [1000, -1])
def test_id_outside_the_vocabulary_is_refused_with_its_place(
    tmp_path: Path, dtype: str, wrong: int
) -> None:
    ids = np.arange(1000)
    ids[777] = wrong
    found = wrong % 65_536 if dtype == "uint16" else wrong
    with pytest.raises(DataError, match=rf"from 0 to 999 .*got 'id {found} at position 777'"):
        resolve(tmp_path, write_raw(tmp_path, ids, dtype), ids_of(1000))


@pytest.mark.parametrize(
    ("dtype", "vocab_size"), [("uint8", 257), ("uint16", 65_537), ("uint16", 119_547)]
)
def test_type_too_narrow_for_the_vocabulary_is_refused(
    tmp_path: Path, dtype: str, vocab_size: int
) -> None:
    """huggingface/transformers#2825: 45 % of the ids had wrapped around in silence."""
    source = write_raw(tmp_path, np.arange(1000) % 200, dtype)
    with pytest.raises(DataError, match=rf"holds every id of the vocabulary \({vocab_size}\)"):
        resolve(tmp_path, source, ids_of(vocab_size))


def test_largest_vocabulary_of_a_type_is_accepted(tmp_path: Path) -> None:
    resolve(tmp_path, write_raw(tmp_path, np.arange(1000) + 64_536), ids_of(65_536))


def test_ids_without_a_vocabulary_size_are_refused_with_the_least_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"must be given and at least the 1000 ids.*Use 1000"):
        resolve(tmp_path, counting_ids(tmp_path, 1000), TokenizerChoice(kind="none"))


@pytest.mark.parametrize("vocab_size", [None, 300])
def test_text_without_a_tokenizer_is_refused(tmp_path: Path, vocab_size: int | None) -> None:
    tokenizer = TokenizerChoice(kind="none", vocab_size=vocab_size)
    with pytest.raises(SpecError, match=r"must not be 'none' for a source of kind 'text'"):
        resolve(tmp_path, write_text(tmp_path), tokenizer)


def test_text_and_ids_of_one_tokenizer_may_be_mixed(tmp_path: Path) -> None:
    ids = write_raw(tmp_path, np.full(1000, 255), "uint8")
    corpus = corpus_of(tmp_path, [write_text(tmp_path), ids])
    assert (corpus.batch(0, num_sequences=10, seed=0) == 255).all(axis=1).sum() == 5


def test_text_of_empty_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": ""}\n')
    with pytest.raises(DataError, match="must hold text; got '2 empty documents'"):
        resolve(tmp_path, SourceSpec(kind="jsonl", path="a.jsonl"))


def test_empty_training_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.bin").touch()
    with pytest.raises(DataError, match="must not be empty"):
        resolve(tmp_path, SourceSpec(kind="raw", path="train.bin"), ids_of(10))


def test_synthetic_validation_of_text_is_refused(tmp_path: Path) -> None:
    validation = [ValidationSpec(name="v", num_sequences=1, sources=(synthetic(),))]
    with pytest.raises(SpecError, match="must not be synthetic where training is on text"):
        resolve(tmp_path, write_text(tmp_path), validation=validation)


@pytest.mark.parametrize("seq_len", [0, -8])
def test_empty_windows_are_refused(tmp_path: Path, seq_len: int) -> None:
    with pytest.raises(SpecError, match=r"batch\.seq_len must be positive"):
        resolve(tmp_path, write_text(tmp_path), seq_len=seq_len)


def test_cache_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match="must be a folder that can be written"):
        resolve(tmp_path, write_text(tmp_path))


def test_errors_are_the_users_and_have_four_parts(tmp_path: Path) -> None:
    with pytest.raises(UserInputError) as caught:
        resolve(tmp_path, SourceSpec(kind="text", path="missing.txt"))
    error = caught.value
    assert error.exit_code == 2
    assert all((error.path, error.rule, error.found, error.fix))


def test_names_of_validation_sets_are_unique(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"data\.validation\.name must be unique"):
        resolve(tmp_path, write_text(tmp_path), validation=[*HELD_OUT, *HELD_OUT])


@pytest.mark.needs_shared
def test_public_samples_give_the_same_ids_from_text_and_from_files(
    shared_data: Path, tmp_path: Path
) -> None:
    formats = shared_data / "formats"
    sources = {
        "npy": (SourceSpec(kind="npy", path="raw/tokens_u16.npy"), ids_of(4096)),
        "raw": (SourceSpec(kind="raw", path="raw/nanogpt_train.bin"), ids_of(4096)),
        "jsonl": (
            SourceSpec(kind="jsonl", path="jsonl/wiki.jsonl"),
            TokenizerChoice(kind="file", path="tokenizer_wiki_en_bpe4096.json"),
        ),
    }
    batches, lengths = {}, {}
    for name, (source, tokenizer) in sources.items():
        cache = tmp_path / name
        spec = resolve_data(
            [source], tokenizer, HELD_OUT, 0.1, root=formats, cache=cache, seq_len=64
        )
        corpus = open_corpus(spec, seq_len=64, num_extra_tokens=1, cache=cache)
        batches[name] = corpus.batch(0, num_sequences=8, seed=0)
        lengths[name] = corpus.describe().sources[0].num_tokens
    assert np.array_equal(batches["npy"], batches["raw"])
    assert (lengths["npy"], lengths["raw"]) == (89_148, 89_148)
    # The public files end each of 600 documents with one id; ours joins them by two line ends.
    assert lengths["jsonl"] == 89_148 - 600 + 2 * 599
