"""Where the tokens of a run come from, as frozen data."""

from typing import Literal

from simulator.specs.base import spec
from simulator.specs.errors import SpecError

__all__ = [
    "DataSpec",
    "SourceSpec",
    "SyntheticSpec",
    "TokenizerChoice",
    "TokenizerKind",
    "TokenizerSpec",
    "ValidationSpec",
]

TokenizerKind = Literal["bytes", "bpe", "file", "none"]
"""``bytes``: 256 ids; ``bpe``: trained once on the sources and cached; ``file``: the user's
``tokenizer.json``; ``none``: the sources hold ids already."""


@spec
class SyntheticSpec:
    """Zipf phrase source with bursts, of exactly known entropy."""

    num_phrases: int = 2**18
    """Phrases to be learnt; each has its own pair of cues, so at most ``num_cues`` squared."""
    alpha: float = 0.5
    """The k-th phrase, k from 1, has probability proportional to (k + shift)^-(1 + alpha)."""
    shift: float = 2.0
    num_cues: int = 512
    num_answers: int = 256
    answer_len: int = 6
    """Answer tokens of one block."""
    noise: float = 0.1
    """Probability that an answer token is replaced by one of the other answers."""
    repeat: float = 0.3
    """Probability that a block repeats the phrase of the block before it."""
    table_seed: int = 0
    """Seed of the fixed tables; two sources with the same tables speak the same language."""

    def __post_init__(self) -> None:
        """Refuse a source that cannot exist."""
        rules = {
            "num_cues": (self.num_cues >= 1, "must be >= 1", "Try 512."),
            "num_phrases": (
                1 <= self.num_phrases <= self.num_cues**2,
                f"must lie in [1, num_cues^2 = {self.num_cues**2}]",
                "Lower it or raise num_cues.",
            ),
            "num_answers": (self.num_answers >= 2, "must be >= 2", "Try 256."),
            "answer_len": (self.answer_len >= 1, "must be >= 1", "Try 6."),
            "alpha": (self.alpha > 0, "must be positive", "Try 0.5."),
            "shift": (self.shift > -1, "must exceed -1", "Try 2.0."),
            "noise": (0 <= self.noise < 1, "must lie in [0, 1)", "Try 0.1."),
            "repeat": (0 <= self.repeat < 1, "must lie in [0, 1)", "Try 0.3."),
            "table_seed": (self.table_seed >= 0, "must be >= 0", "Use 0."),
        }
        for name, (is_met, rule, fix) in rules.items():
            if not is_met:
                raise SpecError(f"data.sources.synthetic.{name}", rule, getattr(self, name), fix)

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
    """When ``path`` is a folder: the file names read, sorted; ``**/*.txt`` looks deeper."""
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

    kind: TokenizerKind
    vocab_size: int
    """Ids the model must know."""
    path: str = ""
    """``file`` only."""


@spec
class TokenizerChoice:
    """What a user says about the tokenizer before the data were looked at."""

    kind: TokenizerKind
    vocab_size: int | None = None
    """Required for ``bpe``, and for ``none`` unless the source is synthetic; else found."""
    path: str = ""
    """``file`` only; relative paths are resolved with the data."""

    def __post_init__(self) -> None:
        """Check that the kind and its fields belong together."""
        if (self.kind == "file") != bool(self.path):
            raise SpecError(
                "data.tokenizer.path",
                f"must be {'given' if self.kind == 'file' else 'left out'} for kind {self.kind!r}",
                self.path,
                "Correct the kind or the path.",
            )
        if self.vocab_size is not None and self.vocab_size < 1:
            raise SpecError(
                "data.tokenizer.vocab_size", "must be >= 1", self.vocab_size, "Try 4096."
            )


@spec
class ValidationSpec:
    """One named held-out set."""

    name: str
    num_sequences: int
    """Fixed sequences evaluated; the same for every run."""
    sources: tuple[SourceSpec, ...] = ()
    """Own sources; empty means the tail held out from the training sources."""

    def __post_init__(self) -> None:
        """Refuse a set without a name or without sequences."""
        if not self.name:
            raise SpecError("data.validation.name", "must not be empty", self.name, "Name it.")
        if self.num_sequences < 1:
            raise SpecError(
                "data.validation.num_sequences", "must be >= 1", self.num_sequences, "Try 64."
            )


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
        names = [validation.name for validation in self.validation]
        if len(set(names)) < len(names):
            raise SpecError("data.validation.name", "must be unique", names, "Rename one.")
