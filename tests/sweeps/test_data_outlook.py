from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.data import open_corpus, resolve_data
from simulator.specs.data import SourceSpec, TokenizerChoice, ValidationSpec
from simulator.specs.errors import DataError, SpecError
from sweeps.data_outlook import DataOutlook, look_at_data
from sweeps.tables.target import DataTable
from tests.builders import make_model
from tests.sweeps.files import SYNTHETIC

TEXT = "the quick brown fox jumps over the lazy dog. " * 1000


def look(folder: Path, *sources: SourceSpec, vocab_size: int = 256, **table: Any) -> DataOutlook:
    data = DataTable(sources=sources, **table)
    return look_at_data(data, make_model(vocab_size=vocab_size), root=folder)


def text(
    folder: Path, name: str = "a.txt", *, length: int = len(TEXT), **fields: Any
) -> SourceSpec:
    (folder / name).write_text(TEXT[:length])
    return SourceSpec(kind="text", path=name, **fields)


def test_bytes_are_counted_by_size(tmp_path: Path) -> None:
    found = look(tmp_path, text(tmp_path), holdout_fraction=0.1)
    assert found.unique_tokens == pytest.approx(0.9 * len(TEXT), abs=1)
    assert not found.is_estimate
    assert (found.tokenizer, found.vocab_size) == ("bytes", 256)


def test_the_count_is_near_what_reading_finds(tmp_path: Path) -> None:
    source = text(tmp_path)
    found = look(tmp_path, source)
    spec = resolve_data(
        (source,),
        TokenizerChoice(kind="bytes"),
        (ValidationSpec(name="heldout", num_sequences=4),),
        0.05,
        root=tmp_path,
        cache=tmp_path / "cache",
        seq_len=32,
    )
    corpus = open_corpus(spec, seq_len=32, num_extra_tokens=1, cache=tmp_path / "cache")
    assert found.unique_tokens == pytest.approx(corpus.num_train_tokens, rel=0.05)


def test_subwords_are_estimated_and_said_so(tmp_path: Path) -> None:
    choice = TokenizerChoice(kind="bpe", vocab_size=512)
    found = look(tmp_path, text(tmp_path), vocab_size=512, tokenizer=choice)
    assert found.is_estimate
    assert found.unique_tokens == pytest.approx(0.95 * len(TEXT) / 4, abs=1)


def test_ids_are_counted(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(1000, dtype=np.uint16) % 256)
    found = look(tmp_path, SourceSpec(kind="npy", path="ids.npy"))
    assert found.unique_tokens == 950
    assert (found.tokenizer, found.is_estimate) == ("none", False)


def test_the_source_that_runs_out_first_counts(tmp_path: Path) -> None:
    heavy = text(tmp_path, "heavy.txt", length=1000, weight=3.0)
    light = text(tmp_path, "light.txt", length=40_000, weight=1.0)
    found = look(tmp_path, heavy, light)
    assert found.unique_tokens == pytest.approx(0.95 * 1000 / 0.75, abs=1)
    assert len(found.sources) == 2


def test_generated_text_never_ends(tmp_path: Path) -> None:
    found = look(tmp_path, SYNTHETIC)
    assert found.unique_tokens is None
    assert found.is_synthetic
    assert found.vocab_size == 256


def test_ids_beyond_the_proxys_vocabulary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        look(tmp_path, text(tmp_path), vocab_size=255)
    assert caught.value.path == "data.tokenizer.vocab_size"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        look(tmp_path, SourceSpec(kind="text", path="nowhere.txt"))
