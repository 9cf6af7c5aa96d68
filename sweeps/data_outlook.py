"""What can be said of the data at once: looked at, not read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simulator.data.readers.choose import id_reader, text_reader
from simulator.data.vocabulary import find_vocab_size
from simulator.specs.base import spec
from simulator.specs.data import SourceSpec, TokenizerChoice
from simulator.specs.model import ModelSpec
from sweeps.draft import check_vocabulary
from sweeps.resolve import tokenizer_choice
from sweeps.tables.target import DataTable

__all__ = ["DataOutlook", "look_at_data"]

BYTES_PER_SUBWORD = 4.0
"""English and code take 2.8 to 4.0 bytes a token at 4,096 ids and 4.7 at DeepSeek-V3's 129,280;
good enough to see whether text runs out."""


@spec
class DataOutlook:
    """The data of a sweep before they are read."""

    sources: tuple[str, ...]
    """Where they come from, in words."""
    tokenizer: str
    vocab_size: int
    """Ids the data may hold."""
    unique_tokens: int | None
    """Training tokens there are before one source repeats; null for a source without end."""
    is_estimate: bool
    """Whether the number of tokens is guessed from the bytes of the text."""
    is_synthetic: bool


def look_at_data(table: DataTable, model: ModelSpec, *, root: Path) -> DataOutlook:
    """Return what the files' names and sizes say of the data.

    Parameters
    ----------
    model
        The proxy.
    root
        Folder that relative paths start from.

    Raises
    ------
    SpecError
        If tokenizer, sources and model do not go together.
    DataError
        If a file does not exist or is not of its kind by its head.
    """
    sources = tuple(_placed(source, root) for source in table.sources)
    choice = tokenizer_choice(table, model)
    if choice.path:
        choice = replace(choice, path=str(root / Path(choice.path).expanduser()))
    vocab_size = _vocab_size(choice, sources, model)
    check_vocabulary(vocab_size, model.vocab_size)
    looks = [_look(source, choice) for source in sources]
    is_synthetic = any(source.kind == "synthetic" for source in sources)
    return DataOutlook(
        sources=tuple(origin for origin, _ in looks),
        tokenizer=choice.kind,
        vocab_size=vocab_size,
        unique_tokens=None
        if is_synthetic
        else _until_repeat(
            [tokens for _, tokens in looks],
            [source.weight for source in sources],
            table.holdout_fraction,
        ),
        is_estimate=choice.kind in ("bpe", "file"),
        is_synthetic=is_synthetic,
    )


def _placed(source: SourceSpec, root: Path) -> SourceSpec:
    if not source.path:
        return source
    return replace(source, path=str(root / Path(source.path).expanduser()))


def _vocab_size(choice: TokenizerChoice, sources: Sequence[SourceSpec], model: ModelSpec) -> int:
    if choice.kind != "none":
        return find_vocab_size(choice)
    languages = [source.synthetic.vocab_size for source in sources if source.synthetic]
    return max([choice.vocab_size or 0, *languages]) or model.vocab_size


def _look(source: SourceSpec, choice: TokenizerChoice) -> tuple[str, float]:
    """Return where a source comes from and about how many tokens it holds."""
    ids = id_reader(source)
    if ids is not None:
        return ids.origin, float(sum(array.size for array in ids.arrays()))
    text = text_reader(source)
    if text is None:
        return "synthetic phrases of known entropy", float("inf")
    num_bytes = sum(path.stat().st_size for path in text.files)
    return text.origin, num_bytes / (1.0 if choice.kind == "bytes" else BYTES_PER_SUBWORD)


def _until_repeat(
    tokens: Sequence[float], weights: Sequence[float], holdout_fraction: float
) -> int:
    """Return the tokens a run can read before the source that runs out first begins again."""
    total = sum(weights)
    shares = [weight / total for weight in weights]
    kept = 1.0 - holdout_fraction
    return int(min(count * kept / share for count, share in zip(tokens, shares, strict=True)))
