"""A corpus of token ids in files: weighted mixture, shuffled windows, held-out tails."""

from collections.abc import Mapping
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from simulator.data.corpus import ValidationSet
from simulator.data.manifest import digest
from simulator.data.mixture import apportion, make_mixture
from simulator.data.permutation import permuted
from simulator.data.prepare import PreparedSource
from simulator.data.readers.base import IdArray
from simulator.data.summary import CorpusSummary
from simulator.data.windows import WindowShape, num_train_tokens, spread_starts
from simulator.specs.data import DataSpec, ValidationSpec
from simulator.specs.errors import DataError, SpecError

__all__ = ["TokenCorpus"]

_CHUNK_IDS = 2**20
_MAX_CHUNKS = 64
"""Frequencies are counted over at most this many chunks of each source, spread evenly."""


class TokenCorpus:
    """Sequences gathered straight from memory-mapped ids.

    Sequence number ``step * num_sequences + row`` of the whole run is looked up in the mixture's
    schedule, which says its source and its running number there; that number is split into epoch
    and place, and the epoch's own permutation of the windows says which window it is.

    Raises
    ------
    DataError
        If a source or its held-out tail is too short.
    SpecError
        If a file is read by two sources, or validated on and trained on.
    """

    def __init__(
        self,
        spec: DataSpec,
        shape: WindowShape,
        train: tuple[PreparedSource, ...],
        own: Mapping[str, tuple[PreparedSource, ...]],
        *,
        tokenizer: str,
    ) -> None:
        self._spec, self._shape, self._train, self._own = spec, shape, train, own
        self._tokenizer = tokenizer
        self._train_ends = [
            num_train_tokens(source.ids.size, spec.holdout_fraction) for source in train
        ]
        self._num_windows = [shape.count(end) for end in self._train_ends]
        self._check_train()
        _check_no_file_twice(train)
        for sources in own.values():
            _check_disjoint(train, sources)
        self._mixture = make_mixture(tuple(source.source.weight for source in train))
        self._validation = {item.name: self._make_validation(item) for item in spec.validation}

    @property
    def num_train_tokens(self) -> int | None:
        """Unique training tokens that are predicted."""
        return sum(self._num_windows) * self._shape.seq_len

    @property
    def exact_entropy(self) -> float | None:
        """``None``: nobody knows the entropy of text."""
        return None

    @property
    def validation_names(self) -> tuple[str, ...]:
        """Names of the validation sets; the first one ranks the runs."""
        return tuple(self._validation)

    @cached_property
    def unigram_entropy(self) -> float:
        """Entropy of the mixture's token frequencies, nats; sampled beyond 67 M tokens."""
        frequencies = np.zeros(self._spec.tokenizer.vocab_size)
        for source, end in zip(self._train, self._train_ends, strict=True):
            counts = _count(source.ids[:end], self._spec.tokenizer.vocab_size)
            frequencies += source.source.weight * counts / counts.sum()
        return float(entr(frequencies / frequencies.sum()).sum())

    def batch(self, step: int, *, num_sequences: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the sequences of an optimiser step, shape (num_sequences, window)."""
        window = self._shape.num_tokens
        indices = np.arange(step * num_sequences, (step + 1) * num_sequences, dtype=np.int64)
        sources, numbers = self._mixture.locate(indices)
        starts = np.empty(num_sequences, dtype=np.int64)
        for source in set(sources.tolist()):
            rows = np.flatnonzero(sources == source)
            starts[rows] = self._starts(source, numbers[rows], seed)
        batch = np.empty((num_sequences, window), dtype=np.int64)
        places = zip(sources.tolist(), starts.tolist(), strict=True)
        for row, (source, start) in enumerate(places):
            batch[row] = self._train[source].ids[start : start + window]
        return batch

    def validation(self, name: str) -> ValidationSet:
        """Return a validation set by name."""
        return self._validation[name]

    def describe(self) -> CorpusSummary:
        """Return what was read, with versions and hashes."""
        return CorpusSummary(
            sources=tuple(source.summary for source in self._train),
            validation_sources={
                name: tuple(source.summary for source in sources)
                for name, sources in self._own.items()
            },
            tokenizer=self._tokenizer,
            vocab_size=self._spec.tokenizer.vocab_size,
            num_train_tokens=self.num_train_tokens,
            content_sha256=self.content_sha256,
        )

    @cached_property
    def content_sha256(self) -> str:
        """Hash of the ids, the tokenizer and where the held-out tails begin."""
        names = ("train", *self._own)
        rows = [self._train, *self._own.values()]
        hashes = {
            name: [(source.summary.tokens_sha256, source.ids.size) for source in sources]
            for name, sources in zip(names, rows, strict=True)
        }
        return digest(
            hashes,
            self._tokenizer,
            self._spec.tokenizer.vocab_size,
            self._spec.holdout_fraction,
        )

    def _starts(
        self, source: int, numbers: npt.NDArray[np.int64], seed: int
    ) -> npt.NDArray[np.int64]:
        """Return where the windows begin that a source gives as its ``numbers``-th sequences."""
        num_windows = self._num_windows[source]
        epochs, places = np.divmod(numbers, num_windows)
        starts = np.empty_like(numbers)
        for epoch in set(epochs.tolist()):
            rows = epochs == epoch
            windows = permuted(places[rows], num_windows, (seed, source, epoch))
            starts[rows] = windows * self._shape.seq_len
        return starts

    def _check_train(self) -> None:
        window = self._shape.num_tokens
        for source, end in zip(self._train, self._train_ends, strict=True):
            if end < window:
                raise DataError(
                    source.summary.origin,
                    f"must hold a window of {window} tokens before its held-out tail"
                    f" ({self._spec.holdout_fraction:g})",
                    f"{source.ids.size} tokens, {end} of them for training",
                    "Use more data, a shorter seq_len or a smaller holdout_fraction.",
                )

    def _make_validation(self, item: ValidationSpec) -> ValidationSet:
        if item.sources:
            sources = self._own[item.name]
            begins = [0] * len(sources)
        else:
            sources, begins = self._train, self._train_ends
        weights = tuple(source.source.weight for source in sources)
        counts = apportion(weights, item.num_sequences).tolist()
        window = self._shape.num_tokens
        rows, num_bytes = [], 0.0
        for source, begin, count in zip(sources, begins, counts, strict=True):
            if not count:
                continue
            end = source.ids.size
            _check_fits(source, item, count, (end - begin) // window, window)
            starts = spread_starts(begin, end, count=count, window=window)
            rows.append(source.ids[starts[:, None] + np.arange(window)].astype(np.int64))
            text = source.text_bytes(begin, end)
            num_bytes += np.nan if text is None else count * text / (end - begin)
        return ValidationSet(
            name=item.name,
            tokens=np.concatenate(rows),
            bytes_per_token=None if np.isnan(num_bytes) else num_bytes / item.num_sequences,
            exact_nll=None,
            exact_entropy=None,
        )


def _check_fits(
    source: PreparedSource, item: ValidationSpec, count: int, capacity: int, window: int
) -> None:
    if count > capacity:
        place = "it" if item.sources else "its held-out tail"
        raise DataError(
            source.summary.origin,
            f"must give {count} windows of {window} tokens that do not overlap to validation set"
            f" {item.name!r}",
            f"room for {capacity} in {place}",
            "Lower num_sequences, use more data or a shorter seq_len"
            + ("." if item.sources else ", or raise holdout_fraction."),
        )


def _check_no_file_twice(train: tuple[PreparedSource, ...]) -> None:
    """Refuse overlapping sources: one's held-out tail could be trained on through another."""
    for one, other in combinations(train, 2):
        if shared := one.files & other.files:
            raise SpecError(
                "data.sources.path",
                "must not name a file that another source reads too",
                str(min(shared)),
                "Leave one out and raise the weight of the other.",
            )


def _check_disjoint(train: tuple[PreparedSource, ...], own: tuple[PreparedSource, ...]) -> None:
    for source in own:
        for other in train:
            shared = sorted(map(str, source.files & other.files))
            if shared or source.summary.content_sha256 == other.summary.content_sha256:
                raise SpecError(
                    "data.validation.sources",
                    "must not be trained on",
                    (shared or [source.summary.origin])[0],
                    "Leave its sources out to validate on the held-out tail.",
                )


def _count(ids: IdArray, vocab_size: int) -> npt.NDArray[np.int64]:
    num_chunks = -(-ids.size // _CHUNK_IDS)
    counts = np.zeros(vocab_size, dtype=np.int64)
    for chunk in range(0, num_chunks, -(-num_chunks // _MAX_CHUNKS)):
        part = ids[chunk * _CHUNK_IDS : (chunk + 1) * _CHUNK_IDS]
        counts += np.bincount(part.astype(np.int64), minlength=vocab_size)
    return counts
