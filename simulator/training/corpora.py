"""Corpora that a process has opened, so that one run after the other shares them."""

from pathlib import Path

from simulator.data import Corpus, open_corpus
from simulator.specs.codec import fingerprint
from simulator.specs.run import RunSpec

__all__ = ["OpenCorpora"]


class OpenCorpora:
    """Opens each corpus once.

    A worker keeps one of these for its life and hands it to every run. It may be pickled while
    it is empty.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, int, int, Path], Corpus] = {}

    def corpus(self, spec: RunSpec, *, cache: Path) -> Corpus:
        """Return the corpus of a run.

        Raises
        ------
        DataError
            If the data are no longer what was resolved.
        """
        num_extra_tokens = 1 + spec.model.n_mtp_modules
        key = (fingerprint(spec.data), spec.batch.seq_len, num_extra_tokens, cache)
        if key not in self._open:
            self._open[key] = open_corpus(
                spec.data,
                seq_len=spec.batch.seq_len,
                num_extra_tokens=num_extra_tokens,
                cache=cache,
            )
        return self._open[key]
