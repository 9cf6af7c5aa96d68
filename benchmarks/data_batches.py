"""How fast batches come: CPU time of one batch, tokens per second of the synthetic source.

Run: python benchmarks/data_batches.py [--cache DIR]

The first run reads the default corpus and fills the cache; the times are of warm ones.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simulator.data import open_corpus, resolve_data
from simulator.data.phrases import exact_nll, make_tables, sample_rows
from simulator.specs.data import (
    DataSpec,
    SourceSpec,
    SyntheticSpec,
    TokenizerChoice,
    ValidationSpec,
)

SEQ_LEN, NUM_EXTRA_TOKENS, NUM_SEQUENCES = 128, 2, 8
ROUNDS = 5
VALIDATION = (ValidationSpec(name="held_out", num_sequences=64),)


def best_seconds(work: Callable[[int], object], repeats: int) -> float:
    """Return the CPU seconds of one call, best of several rounds."""
    rounds = []
    for index in range(ROUNDS):
        start = time.process_time()
        for step in range(repeats):
            work(index * repeats + step)
        rounds.append((time.process_time() - start) / repeats)
    return min(rounds)


def resolve(source: SourceSpec, tokenizer: TokenizerChoice, cache: Path) -> DataSpec:
    """Return a source with the default held-out tail."""
    return resolve_data(
        [source], tokenizer, VALIDATION, 0.05, root=Path(), cache=cache, seq_len=SEQ_LEN
    )


def report_corpus(name: str, source: SourceSpec, tokenizer: TokenizerChoice, cache: Path) -> None:
    """Print the cost of opening a corpus and of a batch."""
    spec = resolve(source, tokenizer, cache)
    shape = {"seq_len": SEQ_LEN, "num_extra_tokens": NUM_EXTRA_TOKENS}
    again = best_seconds(lambda _: resolve(source, tokenizer, cache), 1)
    opening = best_seconds(lambda _: open_corpus(spec, cache=cache, **shape), 1)
    corpus = open_corpus(spec, cache=cache, **shape)
    batch = best_seconds(lambda step: corpus.batch(step, num_sequences=NUM_SEQUENCES, seed=0), 2000)
    print(
        f"{name:18} resolve again {again * 1e3:6.0f} ms  open {opening * 1e3:6.0f} ms"
        f"  batch of {NUM_SEQUENCES} x {SEQ_LEN + NUM_EXTRA_TOKENS} {batch * 1e6:5.0f} us"
    )


def report_synthetic() -> None:
    """Print how many tokens a second are drawn and scored."""
    tables = make_tables(SyntheticSpec())
    rng = np.random.default_rng(0)
    rows = sample_rows(tables, rng, num_rows=4096, num_blocks=32)
    draw = best_seconds(lambda _: sample_rows(tables, rng, num_rows=4096, num_blocks=32), 2)
    score = best_seconds(lambda _: exact_nll(tables, rows), 2)
    print(f"{'synthetic tokens':18} drawn {rows.size / draw / 1e6:.0f} M/s, ", end="")
    print(f"exact -ln p of {rows.size / score / 1e6:.0f} M/s")


def main() -> None:
    """Print one line a corpus."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "bench_data")
    cache = parser.parse_args().cache
    language = SourceSpec(kind="synthetic", synthetic=SyntheticSpec())
    report_corpus("sympy, bytes", SourceSpec(kind="sympy"), TokenizerChoice(kind="bytes"), cache)
    report_corpus("synthetic", language, TokenizerChoice(kind="none"), cache)
    report_synthetic()


if __name__ == "__main__":
    main()
