"""Both sides of a sweep's transfer, from its specification."""

from scaling.scale import RunScale, Transfer
from simulator.counting.params import count_params
from sweeps.spec import SweepSpec

__all__ = ["transfer_of"]


def transfer_of(sweep: SweepSpec) -> Transfer:
    """Return proxy and target of ``sweep`` as the rules of transfer see them."""
    base, target = sweep.base, sweep.target
    return Transfer(
        proxy=RunScale(
            active_params=count_params(base.model).active_non_embedding,
            num_tokens=base.num_tokens,
            batch_tokens=base.batch.global_batch_tokens,
        ),
        target=RunScale(
            active_params=count_params(target.model).active_non_embedding,
            num_tokens=target.num_tokens,
            batch_tokens=target.global_batch_sequences * target.seq_len,
        ),
        parametrisation=base.parametrisation,
        beta2=target.beta2,
    )
