"""Tokens for training: sources, tokenizers, and batches as a pure function of (seed, step)."""

from simulator.data.corpus import Corpus, ValidationSet
from simulator.data.resolve import open_corpus, resolve_data
from simulator.data.summary import CorpusSummary, SourceSummary

__all__ = [
    "Corpus",
    "CorpusSummary",
    "SourceSummary",
    "ValidationSet",
    "open_corpus",
    "resolve_data",
]
