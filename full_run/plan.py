"""The full-size run of a chosen configuration, complete and ready to be stored.

::

    TargetFacts(model, global_batch_sequences, seq_len, beta1, beta2, clip_norm, ...)
    target_run_spec(base, facts, recipe, shape) -> RunSpec
"""

from dataclasses import dataclass, replace

from scaling.priors import balance_bias_rate
from scaling.scale import multipliers_of
from simulator.records.summary import TargetRecipe
from simulator.specs.model import ModelSpec
from simulator.specs.run import BatchSpec, PhaseSpec, RunSpec
from simulator.specs.schedule import ScheduleShape, ScheduleSpec

__all__ = ["PUBLISHED_MTP_WEIGHT", "TargetFacts", "target_run_spec"]

PUBLISHED_MTP_WEIGHT = (
    PhaseSpec(until_fraction=0.68, value=0.3),
    PhaseSpec(until_fraction=1.0, value=0.1),
)
"""DeepSeek-V3: 0.3 for the first 10 of 14.8 T tokens, then 0.1 (arXiv 2412.19437, section 4.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What the target's own run keeps, whatever was found on the proxy."""

    model: ModelSpec
    global_batch_sequences: int
    seq_len: int
    beta1: float = 0.9
    beta2: float = 0.95
    clip_norm: float = 1.0
    mtp_weight: tuple[PhaseSpec, ...] = ()
    """Empty: the proxy's phases, or DeepSeek-V3's where the proxy has no prediction module."""
    bias_rate: tuple[PhaseSpec, ...] = ()
    """Empty: the proxy's phases at the speed that suits the target's number of steps."""


def target_run_spec(
    base: RunSpec, facts: TargetFacts, recipe: TargetRecipe, shape: ScheduleShape
) -> RunSpec:
    """Return the run of the target under a mapped recipe.

    Parameters
    ----------
    base
        The proxy's run: its parametrisation, data, evaluation and seeds carry over.
    shape
        The schedule that ``recipe.schedule`` names.

    Notes
    -----
    The run holds base values and the parametrisation multiplies them: its peak rate is the
    recipe's ``peak_lr`` and its decay the matrices' decay over their own factor, so that
    ``rule_table`` gives a hidden matrix exactly the recipe's ``matrix_lr`` and ``weight_decay``.

    Raises
    ------
    SpecError
        If the recipe's warmup exceeds its steps.
    """
    factors = multipliers_of(facts.model, base.parametrisation, base.optimizer.muon_scale)
    return replace(
        base,
        model=facts.model,
        optimizer=replace(
            base.optimizer,
            peak_lr=recipe.peak_lr,
            weight_decay=recipe.weight_decay / factors.matrix_decay,
            beta1=facts.beta1,
            beta2=facts.beta2,
            clip_norm=facts.clip_norm,
        ),
        schedule=ScheduleSpec(warmup_steps=recipe.warmup_steps, shape=shape),
        batch=BatchSpec(global_batch_sequences=facts.global_batch_sequences, seq_len=facts.seq_len),
        num_steps=recipe.num_steps,
        mtp_weight=_mtp_weight(base, facts),
        bias_rate=facts.bias_rate or _rescaled(base, recipe.num_steps),
    )


def _mtp_weight(base: RunSpec, facts: TargetFacts) -> tuple[PhaseSpec, ...]:
    if not facts.model.n_mtp_modules:
        return ()
    return facts.mtp_weight or base.mtp_weight or PUBLISHED_MTP_WEIGHT


def _rescaled(base: RunSpec, num_steps: int) -> tuple[PhaseSpec, ...]:
    factor = balance_bias_rate(num_steps) / balance_bias_rate(base.num_steps)
    return tuple(replace(phase, value=phase.value * factor) for phase in base.bias_rate)
