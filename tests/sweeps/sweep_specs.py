"""Small valid resolved sweeps with named changes."""

from typing import Any

from simulator.schedules import named_shape
from sweeps.spec import (
    BudgetSpec,
    ChoiceDomain,
    FinalistSpec,
    FloatDomain,
    IncumbentSpec,
    NamedShape,
    SearchSpec,
    SpaceSpec,
    SweepSpec,
    TargetSpec,
)
from tests.builders import make_execution, make_run, widen

SCHEDULES = ("linear_to_zero", "wsd20_sqrt", "cosine_to_10pct")


def make_space(**changes: Any) -> SpaceSpec:
    fields: dict[str, Any] = {
        "domains": (
            FloatDomain(name="peak_lr", low=1e-3, high=6.4e-2),
            ChoiceDomain(name="tau", values=(0.1, 0.2, 0.4)),
            ChoiceDomain(name="warmup_ratio", values=(0.1, 0.2)),
            ChoiceDomain(name="schedule", values=SCHEDULES),
        ),
        "schedules": tuple(NamedShape(name=name, shape=named_shape(name)) for name in SCHEDULES),
    }
    return SpaceSpec(**(fields | changes))


def make_target(**changes: Any) -> TargetSpec:
    fields: dict[str, Any] = {
        "name": "tiny",
        "model": widen(make_run().model),
        "num_tokens": 100_000,
        "global_batch_sequences": 16,
        "seq_len": 32,
        "shape": named_shape("cosine_to_10pct"),
        "warmup_steps": 20,
        "recipe_source": "given",
    }
    return TargetSpec(**(fields | changes))


def make_sweep(**changes: Any) -> SweepSpec:
    """Return a sweep of six trials of 20 steps; every field may be replaced."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "target": make_target(),
        "base": make_run(),
        "space": make_space(),
        "search": SearchSpec(sampler="random", num_trials=6, batch_size=2, seed=0),
        "finalists": FinalistSpec(
            max_configs=4, num_seeds=2, noise_replicates=2, delta_fraction=0.003
        ),
        "incumbent": IncumbentSpec(
            params={"peak_lr": 5e-3, "tau": 0.2, "warmup_ratio": 0.1, "schedule": "wsd20_sqrt"},
            source="given",
        ),
        "execution": make_execution(),
        "num_workers": 1,
        "budget": BudgetSpec(max_wall_hours=None),
    }
    return SweepSpec(**(fields | changes))
