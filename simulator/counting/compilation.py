"""Whether compiling the training step repays, before anything is compiled."""

from dataclasses import dataclass

from simulator.specs.model import ModelSpec

__all__ = ["CompilationVerdict", "weigh_compilation"]

SECONDS_PER_KIND = 30.0
"""Wall time of compiling one kind of layer, forward and backward, without cached code: 20 to 26
measured on 2 cores with AVX-512 under PyTorch 2.13 (benchmarks/step_speed.py)."""

SECONDS_PER_LAYER_STEP = 0.4e-3
SECONDS_PER_ACTIVATION = 12e-9
"""Saved in each layer and step of a trial: so much, and so much more for each token and unit of
width. Less than was measured everywhere in float32: with 4 layers, 4.9 ms at width 64 and 256
tokens, 3.3 ms at 128 and 256, 31 ms at 256 and 1024; more was saved in bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationVerdict:
    """What compiling costs and saves."""

    is_worth_it: bool
    cost_seconds: float
    """Of all workers together, nothing cached."""
    saved_seconds: float
    """Of all trials together, at least."""
    reason: str


def weigh_compilation(
    model: ModelSpec, *, trial_steps: int, tokens_per_step: int, num_workers: int = 1
) -> CompilationVerdict:
    """Return whether to compile the steps of a sweep on the CPU.

    Parameters
    ----------
    trial_steps
        Optimiser steps of all trials of this shape together, shared ones once.
    tokens_per_step
        Predicted tokens of one step of one trial.
    num_workers
        Processes, each of which compiles.

    Notes
    -----
    Only as many kinds of layers are compiled as there are, not as many layers. Both sides are
    measured numbers rounded against compiling; other processors differ.
    """
    kinds = len({model.is_moe_layer(layer) for layer in range(model.n_layers)})
    layers = model.n_layers + model.n_mtp_modules
    cost = SECONDS_PER_KIND * kinds * num_workers
    activations = tokens_per_step * model.dim
    saved_a_step = layers * (SECONDS_PER_LAYER_STEP + SECONDS_PER_ACTIVATION * activations)
    saved = saved_a_step * trial_steps
    relation = "saves more than" if saved > cost else "does not save"
    reason = (
        f"compiling {relation} the {cost:.0f} s it costs: about {saved_a_step * 1e3:.1f} ms in each"
        f" of {trial_steps:,} steps, {saved:.0f} s (even at {cost / saved_a_step:,.0f} steps)"
    )
    return CompilationVerdict(
        is_worth_it=saved > cost, cost_seconds=cost, saved_seconds=saved, reason=reason
    )
