"""A model with its engine, and batches of random tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from simulator.model import Transformer, build_model
from simulator.parametrisation import rule_table
from simulator.specs.model import ModelSpec
from simulator.specs.run import AdamWSpec
from simulator.training.device_engine import DeviceEngine
from simulator.training.optim import FlatAdamW
from simulator.training.records import StepValues, TokenArray
from simulator.training.stepping import make_stepper
from tests.builders import make_model, make_moe, make_parametrisation

VALUES = StepValues(lr=np.array([1e-2]), mtp_weight=np.array([0.3]), bias_rate=np.array([1e-2]))
OPTIMIZER = AdamWSpec(peak_lr=1e-2, weight_decay=0.1)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Trained:
    model: Transformer
    optimizer: FlatAdamW
    engine: DeviceEngine


def make_trained(
    spec: ModelSpec | None = None,
    *,
    seeds: Sequence[int] = (0,),
    micro_batch_sequences: int = 8,
    precision: Literal["fp32", "bf16"] = "fp32",
) -> Trained:
    """Return an engine with one row a seed."""
    spec = spec or make_model()
    rules = rule_table(spec, make_parametrisation(spec))
    model, mirror = build_model(spec), build_model(spec)
    optimizer = FlatAdamW(model.named_parameters(), rules, [OPTIMIZER] * len(seeds))
    engine = DeviceEngine(
        model,
        mirror,
        optimizer,
        rules=rules,
        num_rows=len(seeds),
        micro_batch_sequences=micro_batch_sequences,
        device=CPU,
        stepper=make_stepper(model, precision=precision, is_compiled=False),
    )
    for row, seed in enumerate(seeds):
        engine.start(row, OPTIMIZER, seed=seed)
    return Trained(model, optimizer, engine)


def make_tokens(num_sequences: int = 8, seed: int = 0, window: int = 34) -> TokenArray:
    """Return the batch of one row."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (1, num_sequences, window), dtype=np.int64)


def with_balance_loss(**changes: Any) -> ModelSpec:
    """Softmax routing with an auxiliary loss, as DeepSeek-V2."""
    moe = make_moe(score_func="softmax", balance="aux_loss", aux_loss_alpha=0.05, **changes)
    return replace(make_model(), moe=moe)
