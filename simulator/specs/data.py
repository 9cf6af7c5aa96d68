"""Where the tokens of a run come from, as frozen data."""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.errors import SpecError

__all__ = ["DataSpec", "SourceSpec", "SyntheticSpec", "TokenizerSpec", "ValidationSpec"]


@spec
class SyntheticSpec:
    """Zipf phrase source with bursts, of exactly known entropy."""

    num_phrases: int = 2**18
    alpha: float = 0.5
    shift: float = 2.0
    num_cues: int = 512
    num_answers: int = 256
    answer_len: int = 6
    noise: float = 0.1
    repeat: float = 0.3
    table_seed: int = 0

    @property
    def vocab_size(self) -> int:
        """Cue and answer symbols together."""
        return self.num_cues + self.num_answers

    @property
    def block_len(self) -> int:
        """Tokens of one block: two cues and the answers."""
        return 2 + self.answer_len


@spec
class SourceSpec:
    """One source of tokens and its weight in the mixture."""

    kind: Literal["text", "jsonl", "npy", "raw", "sympy", "synthetic"]
    """``text``: file or folder; ``raw``: headerless integers; ``sympy``: installed sources."""
    path: str = ""
    """File or folder; empty for ``sympy`` and ``synthetic``."""
    weight: float = 1.0
    """Share of sequences drawn from this source, relative to the others."""
    dtype: Literal["uint8", "uint16", "int32", "uint32", "int64"] = "uint16"
    """``raw`` only."""
    text_key: str = "text"
    """``jsonl`` only: the key that holds the text."""
    pattern: str = "*"
    """``text`` with a folder: the file names read, sorted."""
    synthetic: SyntheticSpec | None = None
    """``synthetic`` only."""

    def __post_init__(self) -> None:
        """Check that the kind and its fields belong together."""
        if self.weight <= 0:
            raise SpecError("data.sources.weight", "must be positive", self.weight, "Give > 0.")
        needs_path = self.kind in ("text", "jsonl", "npy", "raw")
        if needs_path != bool(self.path):
            raise SpecError(
                "data.sources.path",
                f"must be {'given' if needs_path else 'left out'} for kind {self.kind!r}",
                self.path,
                "Correct the kind or the path.",
            )
        if (self.kind == "synthetic") != (self.synthetic is not None):
            raise SpecError(
                "data.sources.synthetic",
                "must be given for kind 'synthetic' and for no other",
                self.synthetic,
                "Add or remove the [data.sources.synthetic] table.",
            )


@spec
class TokenizerSpec:
    """How text becomes token ids."""

    kind: Literal["bytes", "bpe", "file", "none"]
    """``bytes``: 256 ids; ``bpe``: trained once on the sources and cached; ``file``: the user's
    ``tokenizer.json``; ``none``: the sources hold ids already."""
    vocab_size: int
    """Ids the model must know."""
    path: str = ""
    """``file`` only."""


@spec
class ValidationSpec:
    """One named held-out set."""

    name: str
    num_sequences: int
    """Fixed sequences evaluated; the same for every run."""
    sources: tuple[SourceSpec, ...] = ()
    """Own sources; empty means the tail held out from the training sources."""


@spec
class DataSpec:
    """Training and validation data of a run."""

    sources: tuple[SourceSpec, ...]
    tokenizer: TokenizerSpec
    validation: tuple[ValidationSpec, ...]
    """The first one ranks the runs; every one is stored."""
    holdout_fraction: float = 0.05
    """Share at the end of each training source that only validation sees."""
    content_sha256: str
    """Hash of the resolved token ids; a run refuses data that no longer match."""

    def __post_init__(self) -> None:
        """Refuse data without sources or validation."""
        if not self.sources or not self.validation:
            raise SpecError(
                "data.sources" if not self.sources else "data.validation",
                "must not be empty",
                (),
                "Name at least one.",
            )
        if not 0 < self.holdout_fraction < 1:
            raise SpecError(
                "data.holdout_fraction", "must lie in (0, 1)", self.holdout_fraction, "Try 0.05."
            )
