"""What training and evaluation see of the data."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from simulator.data.summary import CorpusSummary

__all__ = ["Corpus", "ValidationSet"]


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """Fixed held-out sequences, the same for every run."""

    name: str
    tokens: npt.NDArray[np.int64]
    """Shape (n, seq_len + num_extra_tokens)."""
    bytes_per_token: float | None
    """UTF-8 bytes of the held-out text per token, ``None`` when the text is unknown. Bits per
    byte = nats per token / (ln 2 * bytes per token)."""
    exact_nll: npt.NDArray[np.float64] | None
    """Synthetic only: -ln p of each predicted token given the tokens before it in its window,
    nats, shape (n, seq_len). Subtracting it from a model's removes most of the noise."""
    exact_entropy: float | None
    """Synthetic only: expectation of ``exact_nll``, the lowest mean loss, nats per token."""


class Corpus(Protocol):
    """Training batches and validation sets."""

    @property
    def num_train_tokens(self) -> int | None:
        """Unique training tokens that are predicted; ``None`` when there is no end of them."""

    @property
    def unigram_entropy(self) -> float:
        """Entropy of the training tokens' frequencies, nats: the loss without any context."""

    @property
    def exact_entropy(self) -> float | None:
        """Lowest mean loss of the predicted tokens, nats per token; ``None`` if unknown."""

    @property
    def validation_names(self) -> tuple[str, ...]:
        """Names of the validation sets; the first one ranks the runs."""

    def batch(self, step: int, *, num_sequences: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the sequences of an optimiser step, a pure function of the arguments.

        Parameters
        ----------
        step
            From 0; any step is found directly.
        num_sequences
            Sequences of every step, the same throughout a run.
        seed
            Order of the sequences, >= 0.

        Returns
        -------
        array
            Token ids, shape (num_sequences, seq_len + num_extra_tokens).
        """

    def validation(self, name: str) -> ValidationSet:
        """Return a validation set by name."""

    def describe(self) -> CorpusSummary:
        """Return what was read, with versions and hashes."""
