"""A corpus without end and of exactly known entropy."""

import hashlib
from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.data.corpus import ValidationSet
from simulator.data.manifest import digest
from simulator.data.phrases import (
    PhraseTables,
    exact_nll,
    make_tables,
    predicted_entropy,
    sample_rows,
    unigram_entropy,
)
from simulator.data.summary import CorpusSummary, SourceSummary
from simulator.data.windows import WindowShape
from simulator.specs.codec import canonical_json
from simulator.specs.data import DataSpec, SourceSpec, SyntheticSpec, ValidationSpec
from simulator.specs.errors import SpecError

__all__ = ["SyntheticCorpus"]

_TRAIN_STREAM = 0
_VALIDATION_STREAM = 1
"""First word of every generator's seed: the two can never give the same sample."""


class SyntheticCorpus:
    """Fresh blocks in every step, drawn by a generator seeded with (seed, step).

    Raises
    ------
    SpecError
        If the sources are not one synthetic language, or ``seq_len`` is no multiple of its block.
    """

    def __init__(self, spec: DataSpec, shape: WindowShape) -> None:
        self._spec, self._shape = spec, shape
        language = _only_language(spec.sources, "data.sources")
        _check_blocks(language, shape)
        self._tables = make_tables(language)
        self._own_tables = {
            item.name: self._make_own_tables(item.sources)
            for item in spec.validation
            if item.sources
        }
        self._validation = {
            item.name: self._make_validation(item, index)
            for index, item in enumerate(spec.validation)
        }

    @property
    def num_train_tokens(self) -> int | None:
        """``None``: it never runs out."""
        return None

    @cached_property
    def unigram_entropy(self) -> float:
        """Entropy of the tokens' frequencies, nats; exact."""
        return unigram_entropy(self._tables)

    @cached_property
    def exact_entropy(self) -> float | None:
        """Lowest mean loss of the predicted tokens of a window, nats per token."""
        return self._floor(self._tables)

    @property
    def validation_names(self) -> tuple[str, ...]:
        """Names of the validation sets; the first one ranks the runs."""
        return tuple(self._validation)

    def batch(self, step: int, *, num_sequences: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the sequences of an optimiser step, shape (num_sequences, window)."""
        rng = np.random.default_rng([_TRAIN_STREAM, seed, step])
        return self._draw(self._tables, rng, num_sequences)

    def validation(self, name: str) -> ValidationSet:
        """Return a validation set by name."""
        return self._validation[name]

    def describe(self) -> CorpusSummary:
        """Return the language and its hashes."""
        own = {
            item.name: (_summary(item.sources[0], self._own_tables[item.name]),)
            for item in self._spec.validation
            if item.sources
        }
        return CorpusSummary(
            sources=(_summary(self._spec.sources[0], self._tables),),
            validation_sources=own,
            tokenizer="none",
            vocab_size=self._spec.tokenizer.vocab_size,
            num_train_tokens=None,
            content_sha256=self.content_sha256,
        )

    @cached_property
    def content_sha256(self) -> str:
        """Hash of the languages' tables and of a first sample; the same for every window shape.

        It changes with a version of numpy that draws other samples from the same seed.
        """
        own = [_language_hash(tables) for tables in self._own_tables.values()]
        return digest(_language_hash(self._tables), own)

    def _draw(
        self, tables: PhraseTables, rng: np.random.Generator, num_rows: int
    ) -> npt.NDArray[np.int64]:
        window = self._shape.num_tokens
        num_blocks = -(-window // tables.spec.block_len)
        rows = sample_rows(tables, rng, num_rows=num_rows, num_blocks=num_blocks)
        return np.ascontiguousarray(rows[:, :window])

    def _floor(self, tables: PhraseTables) -> float:
        return predicted_entropy(tables, self._shape.seq_len // tables.spec.block_len)

    def _make_own_tables(self, sources: tuple[SourceSpec, ...]) -> PhraseTables:
        language = _only_language(sources, "data.validation.sources")
        vocab_size = self._spec.tokenizer.vocab_size
        if language.vocab_size > vocab_size:
            raise SpecError(
                "data.validation.sources.synthetic",
                f"must not need more than {vocab_size} ids",
                language.vocab_size,
                "Use as many cues and answers as in training.",
            )
        _check_blocks(language, self._shape)
        return make_tables(language)

    def _make_validation(self, item: ValidationSpec, index: int) -> ValidationSet:
        tables = self._own_tables.get(item.name, self._tables)
        rng = np.random.default_rng([_VALIDATION_STREAM, tables.spec.table_seed, index])
        tokens = self._draw(tables, rng, item.num_sequences)
        predicted = slice(1, self._shape.seq_len + 1)
        return ValidationSet(
            name=item.name,
            tokens=tokens,
            bytes_per_token=None,
            exact_nll=exact_nll(tables, tokens)[:, predicted],
            exact_entropy=self._floor(tables),
        )


def _only_language(sources: tuple[SourceSpec, ...], path: str) -> SyntheticSpec:
    kinds = [source.kind for source in sources]
    language = sources[0].synthetic
    if len(sources) > 1 or language is None:
        raise SpecError(
            path,
            "must be one synthetic source alone where training is synthetic, as the entropy of a"
            " mixture is not known exactly",
            kinds,
            "Leave the others out.",
        )
    return language


def _check_blocks(language: SyntheticSpec, shape: WindowShape) -> None:
    block = language.block_len
    if shape.seq_len % block:
        below = shape.seq_len // block * block
        near = f"{below} or {below + block}" if below else f"{block}"
        raise SpecError(
            "batch.seq_len",
            f"must be a multiple of the synthetic source's block ({block} tokens)",
            shape.seq_len,
            f"Use {near}.",
        )


def _language_hash(tables: PhraseTables) -> str:
    sample = sample_rows(tables, np.random.default_rng(0), num_rows=4, num_blocks=64)
    sha = hashlib.sha256(canonical_json(tables.spec).encode())
    for array in (tables.cues, tables.answers, sample):
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _summary(source: SourceSpec, tables: PhraseTables) -> SourceSummary:
    language = tables.spec
    sha256 = _language_hash(tables)
    return SourceSummary(
        kind=source.kind,
        origin=f"synthetic phrases ({language.num_phrases:,}, table seed {language.table_seed})",
        weight=source.weight,
        num_files=0,
        num_documents=None,
        num_empty_documents=None,
        text_bytes=None,
        content_sha256=sha256,
        num_tokens=None,
        tokens_sha256=sha256,
    )
