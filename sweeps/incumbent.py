"""``[incumbent]`` resolved: the recipe against which gains are stated, as a point of the search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scaling.lr_range import clamp_lr
from scaling.scale import Transfer
from scaling.transfer import RecipePoint, map_to_proxy
from simulator.records.summary import Flag
from simulator.schedules import named_shape
from sweeps.space import lr_bounds, tau_of, warmup_steps_of, weight_decay_of
from sweeps.spec import ChoiceDomain, IncumbentSpec, NamedShape, SpaceSpec
from sweeps.tables.search import IncumbentTable

__all__ = ["ResolvedIncumbent", "incumbent_from_recipe", "incumbent_from_table"]

Decay = Literal["tau", "weight_decay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedIncumbent:
    """The incumbent, and the space with its schedule among the known ones."""

    spec: IncumbentSpec
    space: SpaceSpec
    flags: tuple[Flag, ...]


def incumbent_from_recipe(
    point: RecipePoint, space: SpaceSpec, transfer: Transfer, *, source: str
) -> ResolvedIncumbent:
    """Return the target's recipe mapped back to the proxy.

    A peak rate that maps to where no proxy survives is run at the nearest rate of the range, and a
    flag says so.
    """
    params = map_to_proxy(point, transfer, decay=_searched_decay(space))
    params, flags = clamp_lr(params, *lr_bounds(space))
    params = _on_known_level(params, space, transfer.proxy.num_steps)
    spec = IncumbentSpec(params=params, source=f"{source}, mapped to the proxy")
    return ResolvedIncumbent(spec=spec, space=space, flags=flags)


def incumbent_from_table(
    table: IncumbentTable, space: SpaceSpec, num_steps: int
) -> ResolvedIncumbent:
    """Return the incumbent as the user wrote it, in the terms of the search.

    Raises
    ------
    SpecError
        If the schedule has no such name.
    """
    params: dict[str, float | str] = {
        "peak_lr": table.peak_lr,
        **_given_decay(table, _searched_decay(space), num_steps),
        "warmup_ratio": table.warmup_ratio,
        "schedule": table.schedule,
    }
    if table.schedule not in {named.name for named in space.schedules}:
        shape = named_shape(table.schedule, path="incumbent.schedule")
        named = NamedShape(name=table.schedule, shape=shape)
        space = SpaceSpec(domains=space.domains, schedules=(*space.schedules, named))
    params = _on_known_level(params, space, num_steps)
    spec = IncumbentSpec(params=params, source=table.source)
    return ResolvedIncumbent(spec=spec, space=space, flags=())


def _given_decay(table: IncumbentTable, searched: Decay, num_steps: int) -> dict[str, float]:
    """Return the decay under the name the search knows it by."""
    if table.tau is not None:
        if searched == "tau":
            return {"tau": table.tau}
        return {"weight_decay": weight_decay_of(table.tau, table.peak_lr, num_steps)}
    decay = table.weight_decay or 0.0
    if searched == "weight_decay":
        return {"weight_decay": decay}
    return {"tau": tau_of(decay, table.peak_lr, num_steps)}


def _searched_decay(space: SpaceSpec) -> Decay:
    names = {domain.name for domain in space.domains}
    return "tau" if "tau" in names else "weight_decay"


def _on_known_level(
    params: Mapping[str, float | str], space: SpaceSpec, num_steps: int
) -> dict[str, float | str]:
    """Write the warmup as the searched level of as many steps, where there is one.

    The search then knows the incumbent for a point of its own.
    """
    steps = warmup_steps_of(float(params["warmup_ratio"]), num_steps)
    for domain in space.domains:
        if isinstance(domain, ChoiceDomain) and domain.name == "warmup_ratio":
            for level in domain.values:
                if warmup_steps_of(float(level), num_steps) == steps:
                    return {**params, "warmup_ratio": level}
    return dict(params)
