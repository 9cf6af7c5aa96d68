"""Small valid specifications with named changes.

``make_model()`` is TINY: MLA, routed experts with bias balancing and one multi-token-prediction
module at width 64. ``make_run()`` trains it for a few steps on the synthetic source.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from simulator.data import resolve_data
from simulator.specs.data import (
    DataSpec,
    SourceSpec,
    SyntheticSpec,
    TokenizerChoice,
    TokenizerSpec,
    ValidationSpec,
)
from simulator.specs.model import GQASpec, MLASpec, ModelSpec, MoESpec, RopeSpec
from simulator.specs.run import (
    AdamWSpec,
    BatchSpec,
    EvalSpec,
    ExecutionSpec,
    ParametrisationSpec,
    PhaseSpec,
    RunSpec,
)
from simulator.specs.schedule import LinearShape, ScheduleSpec

VOCAB_SIZE = 256
SEQ_LEN = 32


def make_attention(**changes: Any) -> MLASpec:
    fields: dict[str, Any] = {
        "n_heads": 4,
        "q_lora_rank": 32,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    }
    return MLASpec(**(fields | changes))


def make_moe(**changes: Any) -> MoESpec:
    fields: dict[str, Any] = {
        "n_routed_experts": 8,
        "n_activated_experts": 2,
        "n_shared_experts": 1,
        "moe_inter_dim": 32,
        "n_dense_layers": 1,
        "score_func": "sigmoid",
        "route_scale": 2.5,
        "norm_topk_prob": True,
        "balance": "bias",
    }
    return MoESpec(**(fields | changes))


def make_model(**changes: Any) -> ModelSpec:
    """TINY: 3 layers (1 dense, 2 with experts), width 64, one prediction module."""
    fields: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "dim": 64,
        "inter_dim": 128,
        "n_layers": 3,
        "attention": make_attention(),
        "moe": make_moe(),
        "n_mtp_modules": 1,
        "rope": RopeSpec(theta=10000.0),
        "init_std": 0.02,
        "max_seq_len": 256,
    }
    return ModelSpec(**(fields | changes))


def widen(model: ModelSpec, factor: int = 8) -> ModelSpec:
    """Return the target of which ``model`` is the 1/``factor`` proxy."""
    attention: MLASpec | GQASpec = model.attention
    if isinstance(attention, MLASpec):
        attention = replace(
            attention,
            n_heads=attention.n_heads * factor,
            q_lora_rank=attention.q_lora_rank * factor,
            kv_lora_rank=attention.kv_lora_rank * factor,
        )
    else:
        attention = replace(
            attention,
            n_heads=attention.n_heads * factor,
            n_kv_heads=attention.n_kv_heads * factor,
        )
    moe = model.moe
    if moe is not None:
        moe = replace(moe, moe_inter_dim=moe.moe_inter_dim * factor)
    return replace(
        model,
        dim=model.dim * factor,
        inter_dim=model.inter_dim * factor,
        attention=attention,
        moe=moe,
    )


def make_data(**changes: Any) -> DataSpec:
    """Synthetic source of known entropy with ``VOCAB_SIZE`` symbols."""
    synthetic = SyntheticSpec(num_phrases=512, num_cues=128, num_answers=128)
    fields: dict[str, Any] = {
        "sources": (SourceSpec(kind="synthetic", synthetic=synthetic),),
        "tokenizer": TokenizerSpec(kind="none", vocab_size=VOCAB_SIZE),
        "validation": (ValidationSpec(name="heldout", num_sequences=16),),
        "content_sha256": "",
    }
    return DataSpec(**(fields | changes))


def resolved(run: RunSpec, folder: Path) -> RunSpec:
    """Return the run with its data resolved, ready to be executed; ``folder`` is the cache."""
    data = run.data
    found = resolve_data(
        data.sources,
        TokenizerChoice(kind=data.tokenizer.kind, vocab_size=data.tokenizer.vocab_size),
        data.validation,
        data.holdout_fraction,
        root=folder,
        cache=folder,
        seq_len=run.batch.seq_len,
        num_extra_tokens=1 + run.model.n_mtp_modules,
    )
    return replace(run, data=found)


def make_parametrisation(model: ModelSpec, **changes: Any) -> ParametrisationSpec:
    fields: dict[str, Any] = {"proxy": model, "target": widen(model)}
    return ParametrisationSpec(**(fields | changes))


def make_run(**changes: Any) -> RunSpec:
    """Return a run of 20 steps of 8 sequences; every field may be replaced."""
    model = changes.get("model", make_model())
    fields: dict[str, Any] = {
        "model": model,
        "parametrisation": make_parametrisation(model),
        "optimizer": AdamWSpec(peak_lr=5e-3, weight_decay=0.1),
        "schedule": ScheduleSpec(warmup_steps=2, shape=LinearShape()),
        "data": make_data(),
        "batch": BatchSpec(global_batch_sequences=8, seq_len=SEQ_LEN),
        "eval": EvalSpec(interval_steps=5, final_points=3, final_spacing_steps=2),
        "num_steps": 20,
        "mtp_weight": (
            PhaseSpec(until_fraction=0.68, value=0.3),
            PhaseSpec(until_fraction=1.0, value=0.1),
        ),
        "bias_rate": (
            PhaseSpec(until_fraction=0.9, value=1e-2),
            PhaseSpec(until_fraction=1.0, value=0.0),
        ),
        "init_seed": 0,
        "data_seed": 0,
    }
    return RunSpec(**(fields | changes))


def make_execution(**changes: Any) -> ExecutionSpec:
    """Return one CPU thread, float32, the whole batch at once."""
    return ExecutionSpec(**({"micro_batch_sequences": 8} | changes))
