"""Published pre-training recipes, the incumbents a sweep has to beat.

A recipe is found by the shape of the model, not by its name, so that a renamed copy is still
recognised and a modified model is not.
"""

from dataclasses import dataclass
from typing import Literal

from simulator.specs.model import ModelSpec
from simulator.specs.run import PhaseSpec
from simulator.specs.schedule import (
    CosineShape,
    MultiStepShape,
    PiecewiseShape,
    ScheduleShape,
    SegmentSpec,
)
from simulator.targets.target import Target

__all__ = ["PublishedRecipe", "find_recipe", "recipe_of_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRecipe:
    """How a model was pre-trained, as its authors report."""

    name: str
    peak_lr: float
    weight_decay: float
    beta1: float
    beta2: float
    clip_norm: float
    warmup_steps: int
    shape: ScheduleShape
    num_tokens: int
    global_batch_tokens: int
    """After any ramp."""
    seq_len: int
    mtp_weight: tuple[PhaseSpec, ...] = ()
    bias_rate: tuple[PhaseSpec, ...] = ()
    """Update speed of the balance bias; empty for models without one."""
    init_std: float | None
    """Null where none was published."""
    aux_loss_alpha: float | None = None
    """Weight of the balance loss; null where none was published."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    source: str
    """Paper and section."""
    caveat: str = ""
    """What was not published or does not carry over; empty where nothing has to be said."""


def find_recipe(target: Target) -> PublishedRecipe | None:
    """Return the recipe the target was published with; null for a model nobody published."""
    return None if target.model is None else recipe_of_model(target.model)


def recipe_of_model(model: ModelSpec) -> PublishedRecipe | None:
    """Return the recipe published for a model of this shape."""
    experts = 0 if model.moe is None else model.moe.n_routed_experts
    match (model.vocab_size, model.dim, model.n_layers, model.attention.n_heads, experts):
        case (129280, 7168, 61, 128, 256):
            return _DEEPSEEK_V3
        case (102400, 5120, 60, 128, 160):
            return _DEEPSEEK_V2
        case (102400, 2048, 27, 16, 64):
            return _DEEPSEEK_V2_LITE
        case (102400, 2048, 28, 16, 64):
            return _DEEPSEEK_MOE_16B
        case (102400, 4096, 30, 32, 0):
            return _DEEPSEEK_LLM_7B
        case (102400, 8192, 95, 64, 0):
            return _DEEPSEEK_LLM_67B
        case (163840, 7168, 61, 64, 384):
            return _KIMI_K2
        case (128256, 4096, 32, 32, 0):
            return _LLAMA_31_8B
        case (128256, 8192, 80, 64, 0):
            return _LLAMA_31_70B
        case _:
            return None


def _two_steps(first: float, second: float, factors: tuple[float, float]) -> MultiStepShape:
    return MultiStepShape(milestones=(first, second), factors=factors)


_STEP = 0.316
_STEP_TWICE = _STEP * _STEP
"""arXiv 2405.04434, section 3.1.2: multiplied by 0.316, and again by 0.316."""

_DEEPSEEK_V3 = PublishedRecipe(
    name="DeepSeek-V3",
    peak_lr=2.2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=PiecewiseShape(
        segments=(
            SegmentSpec(
                until_fraction=10.0 / 14.8, curve="constant", start_factor=1.0, end_factor=1.0
            ),
            SegmentSpec(
                until_fraction=14.3 / 14.8, curve="cosine", start_factor=1.0, end_factor=0.1
            ),
            SegmentSpec(
                until_fraction=14.633 / 14.8, curve="constant", start_factor=0.1, end_factor=0.1
            ),
            SegmentSpec(
                until_fraction=1.0,
                curve="constant",
                start_factor=7.3e-6 / 2.2e-4,
                end_factor=7.3e-6 / 2.2e-4,
            ),
        )
    ),
    num_tokens=14_800_000_000_000,
    global_batch_tokens=15_360 * 4096,
    seq_len=4096,
    mtp_weight=(
        PhaseSpec(until_fraction=10.0 / 14.8, value=0.3),
        PhaseSpec(until_fraction=1.0, value=0.1),
    ),
    bias_rate=(
        PhaseSpec(until_fraction=14.3 / 14.8, value=1e-3),
        PhaseSpec(until_fraction=1.0, value=0.0),
    ),
    init_std=0.006,
    aux_loss_alpha=1e-4,
    source="arXiv 2412.19437, section 4.2",
    caveat="The batch rose from 3,072 to 15,360 sequences over the first 469 B tokens; "
    "the final batch is used throughout here.",
)

_DEEPSEEK_V2 = PublishedRecipe(
    name="DeepSeek-V2",
    peak_lr=2.4e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=_two_steps(0.6, 0.9, (_STEP, _STEP_TWICE)),
    num_tokens=8_100_000_000_000,
    global_batch_tokens=9216 * 4096,
    seq_len=4096,
    init_std=0.006,
    aux_loss_alpha=0.003,
    source="arXiv 2405.04434, section 3.1.2",
    caveat="The batch rose from 2,304 to 9,216 sequences over the first 225 B tokens; device and "
    "communication balance losses depend on the layout and are left out.",
)

_DEEPSEEK_V2_LITE = PublishedRecipe(
    name="DeepSeek-V2-Lite",
    peak_lr=4.2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=_two_steps(0.8, 0.9, (_STEP, _STEP_TWICE)),
    num_tokens=5_700_000_000_000,
    global_batch_tokens=4608 * 4096,
    seq_len=4096,
    init_std=0.006,
    aux_loss_alpha=0.001,
    source="arXiv 2405.04434, appendix B",
)

_DEEPSEEK_MOE_16B = PublishedRecipe(
    name="DeepSeekMoE-16B",
    peak_lr=4.2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=_two_steps(0.8, 0.9, (_STEP, _STEP_TWICE)),
    num_tokens=2_000_000_000_000,
    global_batch_tokens=4608 * 4096,
    seq_len=4096,
    init_std=0.006,
    aux_loss_alpha=0.001,
    source="arXiv 2401.06066, section 5.1",
    caveat="The batch is reported as 4.5K sequences, read as 4,608.",
)

_DEEPSEEK_LLM_7B = PublishedRecipe(
    name="DeepSeek-LLM-7B",
    peak_lr=4.2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=_two_steps(0.8, 0.9, (_STEP, 0.1)),
    num_tokens=2_000_000_000_000,
    global_batch_tokens=2304 * 4096,
    seq_len=4096,
    init_std=0.006,
    source="arXiv 2401.02954, section 2.3 and table 2",
)

_DEEPSEEK_LLM_67B = PublishedRecipe(
    name="DeepSeek-LLM-67B",
    peak_lr=3.2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=2000,
    shape=_two_steps(0.8, 0.9, (_STEP, 0.1)),
    num_tokens=2_000_000_000_000,
    global_batch_tokens=4608 * 4096,
    seq_len=4096,
    init_std=0.006,
    source="arXiv 2401.02954, section 2.3 and table 2",
)

_KIMI_K2 = PublishedRecipe(
    name="Kimi-K2",
    peak_lr=2e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=500,
    shape=PiecewiseShape(
        segments=(
            SegmentSpec(
                until_fraction=10.0 / 15.5, curve="constant", start_factor=1.0, end_factor=1.0
            ),
            SegmentSpec(until_fraction=1.0, curve="cosine", start_factor=1.0, end_factor=0.1),
        )
    ),
    num_tokens=15_500_000_000_000,
    global_batch_tokens=2**26,
    seq_len=4096,
    bias_rate=(
        PhaseSpec(until_fraction=0.9, value=1e-3),
        PhaseSpec(until_fraction=1.0, value=0.0),
    ),
    init_std=None,
    optimizer="muon",
    source="arXiv 2507.20534, section 2.5",
    caveat="QK-clip, by which its Muon bounds attention logits, is left out. Betas of the AdamW "
    "part, clipping, initial scale and bias rate were not published: the usual values.",
)

_LLAMA_CAVEAT = (
    "Peak learning rate and cosine are published for this size; batch, betas, weight decay, "
    "clipping and warmup are not: warmup and final batch of the 405B, the rest as Llama 2 "
    "(arXiv 2307.09288, section 2.2)."
)

_LLAMA_31_8B = PublishedRecipe(
    name="Llama-3.1-8B",
    peak_lr=3e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=8000,
    shape=CosineShape(final_factor=0.01),
    num_tokens=15_000_000_000_000,
    global_batch_tokens=2**24,
    seq_len=8192,
    init_std=None,
    source="arXiv 2407.21783, table 3 and section 3.4.1",
    caveat=_LLAMA_CAVEAT,
)

_LLAMA_31_70B = PublishedRecipe(
    name="Llama-3.1-70B",
    peak_lr=1.5e-4,
    weight_decay=0.1,
    beta1=0.9,
    beta2=0.95,
    clip_norm=1.0,
    warmup_steps=8000,
    shape=CosineShape(final_factor=0.01),
    num_tokens=15_000_000_000_000,
    global_batch_tokens=2**24,
    seq_len=8192,
    init_std=None,
    source="arXiv 2407.21783, table 3 and section 3.4.1",
    caveat=_LLAMA_CAVEAT,
)
