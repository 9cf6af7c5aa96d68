"""The nearest proxies that fit a memory, with the axis of transfer each one adds."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.counting.memory import state_bytes
from simulator.counting.params import count_params
from simulator.proxy.shape import Ranks
from simulator.proxy.shrink import ProxyPlan, shrink
from simulator.specs.model import ModelSpec

__all__ = ["Alternative", "nearest_fitting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A proxy that fits a memory, and what it costs in certainty."""

    description: str
    width_factor: int
    cuts: dict[str, int]
    """As ``shrink`` takes them."""
    params_total: int
    """Main model and prediction modules."""
    state_bytes: int
    """fp32 weights, gradients and Adam moments."""
    added_axes: tuple[str, ...]
    """Axes of transfer beyond width."""


def nearest_fitting(
    target: ModelSpec, *, memory_bytes: int, width_factor: int = 8, ranks: Ranks = "scale"
) -> tuple[Alternative, ...]:
    """Return proxies whose training state fits, fewest added axes first, then the largest.

    The ratio as it is comes first; while that does not fit, cuts of prediction modules, layers,
    experts, or layers and experts together are tried at the same ratio, then twice and four times
    the ratio. The vocabulary is never cut here. Empty if nothing of that fits.

    Parameters
    ----------
    memory_bytes
        Room for fp32 weights, gradients and Adam moments, 16 bytes a parameter. Activations are
        not counted, so leave room for them.
    """
    search = _Search(target=target, memory_bytes=memory_bytes, ranks=ranks)
    factor = shrink(target, width_factor=width_factor, ranks=ranks).width_factor
    found = [
        _alternative(target, search.plan(ratio, cuts), cuts)
        for ratio, cuts in search.fitting(factor)
    ]
    return tuple(sorted(found, key=lambda a: (len(a.added_axes), -a.params_total)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    target: ModelSpec
    memory_bytes: int
    ranks: Ranks

    def fitting(self, factor: int) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield ratios and cuts that fit, until a ratio fits as it is."""
        for ratio in (factor, 2 * factor, 4 * factor):
            if self.plan(ratio, {}).width_factor != ratio:
                return
            if self._fits(ratio, {}):
                yield ratio, {}
                return
            for cuts in self._cuts(ratio):
                yield ratio, cuts

    def _cuts(self, ratio: int) -> Iterator[dict[str, int]]:
        """Yield one cut of each sort that fits; layers and experts together only if need be."""
        without_mtp = {"n_mtp_modules": 0}
        if self.target.n_mtp_modules and self._fits(ratio, without_mtp):
            yield without_mtp
        layers = self._fewest_layers_cut(ratio, {})
        experts = next((cuts for cuts in self._expert_cuts() if self._fits(ratio, cuts)), None)
        if layers is not None:
            yield layers
        if experts is not None:
            yield experts
        if layers is None and experts is None:
            both = (self._fewest_layers_cut(ratio, cuts) for cuts in self._expert_cuts())
            fitting = [cuts for cuts in both if cuts is not None]
            if fitting:
                yield max(fitting, key=lambda cuts: cuts["n_layers"])

    def plan(self, factor: int, cuts: dict[str, int]) -> ProxyPlan:
        """Return the proxy of a ratio and cuts."""
        return shrink(self.target, width_factor=factor, ranks=self.ranks, cuts=cuts)

    def _fits(self, factor: int, cuts: dict[str, int]) -> bool:
        return state_bytes(self.plan(factor, cuts).model) <= self.memory_bytes

    def _fewest_layers_cut(self, factor: int, cuts: dict[str, int]) -> dict[str, int] | None:
        """Return the cuts with the largest depth that fits; null where no depth does."""
        moe = self.target.moe
        low = 1 if moe is None else min(moe.n_dense_layers + 1, self.target.n_layers)
        high = self.target.n_layers
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(factor, {**cuts, "n_layers": middle}):
                low = middle
            else:
                high = middle - 1
        deepest = {**cuts, "n_layers": low}
        return deepest if self._fits(factor, deepest) else None

    def _expert_cuts(self) -> Iterator[dict[str, int]]:
        """Yield halvings of the routed experts that the groups and top-k still allow."""
        moe = self.target.moe
        if moe is None:
            return
        experts = moe.n_routed_experts
        while experts % 2 == 0:
            experts //= 2
            reach = experts // moe.n_expert_groups * moe.n_limited_groups
            if experts % moe.n_expert_groups or reach < moe.n_activated_experts:
                return
            yield {"n_routed_experts": experts}


def _alternative(target: ModelSpec, plan: ProxyPlan, cuts: dict[str, int]) -> Alternative:
    params, size = count_params(plan.model).trained, state_bytes(plan.model)
    words = [f"1/{plan.width_factor} width"]
    if "n_layers" in cuts:
        words.append(f"{cuts['n_layers']} of {target.n_layers} layers")
    if "n_routed_experts" in cuts and target.moe is not None:
        words.append(f"{cuts['n_routed_experts']} of {target.moe.n_routed_experts} experts")
    if "n_mtp_modules" in cuts:
        words.append("no multi-token prediction")
    numbers = f"{params / 1e9:.2f} B parameters, {size / 2**30:.1f} GiB of training state"
    return Alternative(
        description=f"{', '.join(words)}: {numbers}",
        width_factor=plan.width_factor,
        cuts=cuts,
        params_total=params,
        state_bytes=size,
        added_axes=tuple(axis for axis in plan.transfer_axes if axis != "width"),
    )
