"""How long one proxy run is and with what batch."""

from dataclasses import dataclass

from scaling.priors import optimal_batch_tokens
from simulator.specs.run import BatchSpec
from sweeps.spec import TargetSpec
from sweeps.tables.target import HorizonTable

__all__ = ["Horizon", "proxy_horizon"]

ROUNDED_FROM, ROUNDED_TO = 64, 16
"""A derived batch of so many sequences or more is rounded to a multiple of the second number, so
that it divides over workers and micro-batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Length and batch of one proxy run."""

    num_steps: int
    batch: BatchSpec
    notes: tuple[str, ...]
    """Which rule gave what was not given."""

    @property
    def num_tokens(self) -> int:
        """Tokens of one run."""
        return self.num_steps * self.batch.global_batch_tokens


def proxy_horizon(
    table: HorizonTable, target: TargetSpec, *, target_params: int, proxy_params: int
) -> Horizon:
    """Return the horizon of the proxy's runs.

    Parameters
    ----------
    target_params, proxy_params
        Active non-embedding parameters, > 0.

    Notes
    -----
    Left alone, the proxy gets the target's tokens per parameter, which leaves the averaging
    timescale unchanged, and the target's ratio of batch to the optimal batch of its horizon, so
    that both sit in the same regime of the batch law (arXiv 2505.13738).
    """
    ratio = table.tokens_per_param or target.num_tokens / target_params
    wanted_tokens = ratio * proxy_params
    seq_len = table.seq_len or target.seq_len
    sequences = table.global_batch_sequences or _sequences(table, target, wanted_tokens, seq_len)
    num_steps = table.num_steps or max(1, round(wanted_tokens / (sequences * seq_len)))
    return Horizon(
        num_steps=num_steps,
        batch=BatchSpec(global_batch_sequences=sequences, seq_len=seq_len),
        notes=_notes(table, num_steps=num_steps, sequences=sequences, ratio=ratio),
    )


def _sequences(table: HorizonTable, target: TargetSpec, wanted_tokens: float, seq_len: int) -> int:
    """Return the batch whose ratio to the optimal one is the target's."""
    target_batch = target.global_batch_sequences * target.seq_len
    excess = target_batch / optimal_batch_tokens(target.num_tokens)
    if table.num_steps is None:
        batch_tokens = excess * optimal_batch_tokens(wanted_tokens)
    else:
        batch_tokens = _batch_of_steps(table.num_steps, excess)
    sequences = max(1, round(batch_tokens / seq_len))
    if sequences >= ROUNDED_FROM:
        sequences = round(sequences / ROUNDED_TO) * ROUNDED_TO
    return sequences


def _batch_of_steps(num_steps: int, excess: float) -> float:
    """Solve batch = excess * optimal_batch(num_steps * batch) by iteration.

    The law's power is below one, so that it contracts.
    """
    batch_tokens = 1.0
    for _ in range(100):
        batch_tokens = excess * optimal_batch_tokens(num_steps * batch_tokens)
    return batch_tokens


def _notes(table: HorizonTable, *, num_steps: int, sequences: int, ratio: float) -> tuple[str, ...]:
    notes = []
    if table.num_steps is None:
        whose = "the target's own" if table.tokens_per_param is None else "as given"
        notes.append(
            f"horizon.num_steps by rule: {num_steps:,}, for {ratio:,.4g} tokens per active "
            f"parameter ({whose})"
        )
    if table.global_batch_sequences is None:
        notes.append(
            f"horizon.global_batch_sequences by rule: {sequences:,}, the target's ratio of batch "
            "to the optimal batch of its horizon"
        )
    return tuple(notes)
