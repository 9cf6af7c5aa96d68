"""What a corpus says about itself, for people and reports."""

from collections.abc import Mapping

from simulator.specs.base import spec

__all__ = ["CorpusSummary", "SourceSummary"]


@spec
class SourceSummary:
    """One source that was read."""

    kind: str
    origin: str
    """Path, or the package with its version."""
    weight: float
    num_files: int
    num_documents: int | None
    """Documents with text in them; null for ids and the synthetic source."""
    num_empty_documents: int | None
    """Documents that were skipped."""
    text_bytes: int | None
    content_sha256: str
    """Of the text with its separators, of the ids as the files hold them, or of the tables."""
    num_tokens: int | None
    """Training and held-out tokens together; null when it never runs out."""
    tokens_sha256: str


@spec
class CorpusSummary:
    """All data of a run."""

    sources: tuple[SourceSummary, ...]
    """The training sources, each with its held-out tail."""
    validation_sources: Mapping[str, tuple[SourceSummary, ...]]
    """Of the validation sets that have their own."""
    tokenizer: str
    """``bytes``, ``none``, or the hash of the ``tokenizer.json``."""
    vocab_size: int
    num_train_tokens: int | None
    """Unique training tokens that are predicted; null when the source never runs out."""
    content_sha256: str
