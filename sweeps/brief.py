"""A plan in a few lines, for the start of a run; ``sweep plan`` shows all of it."""

from rich.console import Group, RenderableType
from rich.text import Text

from sweeps.amounts import amount, flops, share
from sweeps.plan_types import SweepPlan

__all__ = ["render_brief"]

_STYLES = {"red": "bold red", "amber": "yellow"}
_LABELS = {"red": "STOP", "amber": "CAUTION"}


def render_brief(plan: SweepPlan) -> RenderableType:
    """Return what will be run, what it costs beside the target, and the warnings of the plan."""
    proxy, cost = plan.proxy, plan.cost
    stages = ", ".join(f"{stage.name} {stage.num_runs}" for stage in plan.stages)
    lines = (
        f"{plan.target.name}, {amount(plan.target.model.params_total)} parameters, by its "
        f"1/{plan.width_factor}-width proxy of {amount(proxy.model.params_total)}: "
        f"{proxy.run.num_steps:,} steps on {amount(proxy.run.num_tokens)} tokens a run",
        f"{cost.num_runs} runs at most ({stages}), {_at_a_time(plan)} on "
        f"{plan.execution.device}; {flops(cost.sweep_flops)} FLOPs, "
        f"{share(cost.share_of_target)} of the target run's",
    )
    warnings = [
        Text.assemble((f"{_LABELS[flag.severity]} ", _STYLES[flag.severity]), flag.message)
        for flag in plan.flags
        if flag.severity in _LABELS
    ]
    return Group(Text(plan.name, style="bold"), *map(Text, lines), *warnings)


def _at_a_time(plan: SweepPlan) -> str:
    workers, rows = plan.execution.num_workers, plan.execution.num_rows
    who = "one worker" if workers == 1 else f"{workers} workers"
    return who if rows == 1 else f"{who} with up to {rows} at a time"
