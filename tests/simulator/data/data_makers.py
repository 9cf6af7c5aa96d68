"""Small sources and valid defaults."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.data import Corpus, open_corpus, resolve_data
from simulator.specs.data import (
    DataSpec,
    SourceSpec,
    SyntheticSpec,
    TokenizerChoice,
    ValidationSpec,
)

BYTES = TokenizerChoice(kind="bytes")
HELD_OUT = (ValidationSpec(name="held_out", num_sequences=4),)
SMALL_LANGUAGE = SyntheticSpec(num_phrases=200, num_cues=16, num_answers=8, answer_len=2)
"""Blocks of four tokens."""


def ids_of(vocab_size: int) -> TokenizerChoice:
    """Sources that hold ids below ``vocab_size`` already."""
    return TokenizerChoice(kind="none", vocab_size=vocab_size)


def resolve(
    folder: Path,
    sources: SourceSpec | Sequence[SourceSpec],
    tokenizer: TokenizerChoice = BYTES,
    *,
    validation: Sequence[ValidationSpec] = HELD_OUT,
    holdout_fraction: float = 0.1,
    seq_len: int = 8,
    num_extra_tokens: int = 1,
) -> DataSpec:
    return resolve_data(
        [sources] if isinstance(sources, SourceSpec) else sources,
        tokenizer,
        validation,
        holdout_fraction,
        root=folder,
        cache=folder / "cache",
        seq_len=seq_len,
        num_extra_tokens=num_extra_tokens,
    )


def corpus_of(folder: Path, *args: Any, **changes: Any) -> Corpus:
    shape = {
        "seq_len": changes.get("seq_len", 8),
        "num_extra_tokens": changes.get("num_extra_tokens", 1),
    }
    return open_corpus(resolve(folder, *args, **changes), cache=folder / "cache", **shape)


def write_text(folder: Path, name: str = "a.txt", *, num_bytes: int = 2000) -> SourceSpec:
    """A file whose every byte differs from its neighbours."""
    text = "".join(chr(32 + (7 * index + index // 90) % 90) for index in range(num_bytes))
    (folder / name).write_text(text)
    return SourceSpec(kind="text", path=name)


def write_raw(
    folder: Path, ids: Sequence[int] | np.ndarray, dtype: Any = "uint16", name: str = "ids.bin"
) -> SourceSpec:
    np.asarray(ids).astype(dtype).tofile(folder / name)
    return SourceSpec(kind="raw", path=name, dtype=dtype)


def counting_ids(folder: Path, num_ids: int, *, name: str = "ids.bin") -> SourceSpec:
    """Ids 0, 1, 2 ...: the first id of a window is its place in the file."""
    return write_raw(folder, np.arange(num_ids), "int32", name)


def synthetic(**changes: Any) -> SourceSpec:
    spec = {"num_phrases": 200, "num_cues": 16, "num_answers": 8, "answer_len": 2} | changes
    return SourceSpec(kind="synthetic", synthetic=SyntheticSpec(**spec))
