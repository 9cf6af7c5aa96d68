"""Both sides of a sweep's transfer, as the rules of transfer see them."""

from scaling.scale import RunScale, Transfer
from simulator.counting.params import count_params
from simulator.specs.run import BatchSpec, MuonScale, ParametrisationSpec
from sweeps.spec import SweepSpec, TargetSpec

__all__ = ["transfer_between", "transfer_of"]


def transfer_between(
    target: TargetSpec,
    parametrisation: ParametrisationSpec,
    *,
    batch: BatchSpec,
    num_steps: int,
    muon_scale: MuonScale | None = None,
) -> Transfer:
    """Return the transfer from a proxy's run of ``num_steps`` batches to the target's run.

    Parameters
    ----------
    muon_scale
        The optimiser's own; null for AdamW.
    """
    return Transfer(
        proxy=RunScale(
            active_params=count_params(parametrisation.proxy).active_non_embedding,
            num_tokens=num_steps * batch.global_batch_tokens,
            batch_tokens=batch.global_batch_tokens,
        ),
        target=RunScale(
            active_params=count_params(target.model).active_non_embedding,
            num_tokens=target.num_tokens,
            batch_tokens=target.global_batch_sequences * target.seq_len,
        ),
        parametrisation=parametrisation,
        beta2=target.beta2,
        muon_scale=muon_scale,
    )


def transfer_of(sweep: SweepSpec) -> Transfer:
    """Return the transfer of a resolved sweep."""
    base = sweep.base
    return transfer_between(
        sweep.target,
        base.parametrisation,
        batch=base.batch,
        num_steps=base.num_steps,
        muon_scale=base.optimizer.muon_scale,
    )
