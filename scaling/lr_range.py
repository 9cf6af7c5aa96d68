"""The range of peak rates a proxy's search covers, and recipes that fall outside it.

::

    proxy_lr_prior(transfer, published, span_octaves=6.0) -> LrPrior
    clamp_lr(params, low, high) -> tuple[dict, tuple[Flag, ...]]
"""

from collections.abc import Mapping

from scaling.priors import MUON_WIDTH_EXPONENT, LrPrior, lr_prior, small_scale_lr
from scaling.scale import Transfer, multipliers_of
from scaling.transfer import RecipePoint, lr_std_octaves, map_to_proxy
from simulator.records.summary import Flag

__all__ = ["clamp_lr", "proxy_lr_prior"]


def proxy_lr_prior(
    transfer: Transfer, published: RecipePoint | None = None, *, span_octaves: float = 6.0
) -> LrPrior:
    """Return the centre and bounds of the proxy's peak rate, in the parametrisation's base rate.

    Parameters
    ----------
    published
        The target's published recipe, where there is one.

    Notes
    -----
    The law of small models speaks of the proxy's hidden matrices; it is divided by their factor,
    which is 1 for ``anchor="proxy"`` and the width ratio for ``anchor="target"``.
    """
    parametrisation = transfer.parametrisation
    muon_scale, proxy = transfer.muon_scale, transfer.proxy
    factor = multipliers_of(parametrisation.proxy, parametrisation, muon_scale).matrix_lr
    law = small_scale_lr(
        parametrisation.proxy.dim,
        proxy.num_tokens,
        proxy.batch_tokens,
        width_exponent=1.0 if muon_scale is None else MUON_WIDTH_EXPONENT,
    )
    mapped = None
    if published is not None:
        mapped = float(map_to_proxy(published, transfer, decay="weight_decay")["peak_lr"])
    return lr_prior(
        small_scale=law / factor,
        mapped=mapped,
        mapped_std_octaves=lr_std_octaves(transfer),
        span_octaves=span_octaves,
    )


def clamp_lr(
    params: Mapping[str, float | str], low: float, high: float
) -> tuple[dict[str, float | str], tuple[Flag, ...]]:
    """Return ``params`` with the peak rate inside [low, high], and a flag when it had to move.

    A recipe mapped back over many decades of tokens can land where no proxy survives; it is then
    run at the nearest rate of the range, and said so.
    """
    lr = float(params["peak_lr"])
    inside = min(max(lr, low), high)
    if inside == lr:
        return dict(params), ()
    message = (
        f"the incumbent's peak rate maps back to {lr:.2g} on the proxy, outside the range "
        f"[{low:.2g}, {high:.2g}]; it is run at {inside:.2g}, so gains over it are indicative"
    )
    return dict(params) | {"peak_lr": inside}, (
        Flag(severity="amber", code="incumbent_outside_range", message=message),
    )
