"""A model with its engine, and batches of random tokens."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from simulator.model import Transformer, build_model, initialise
from simulator.parametrisation import rule_table
from simulator.specs.model import ModelSpec
from simulator.specs.run import OptimizerSpec
from simulator.training.optim import FlatAdamW
from simulator.training.records import StepValues, TokenArray
from simulator.training.solo import SoloEngine
from tests.builders import make_model, make_moe, make_parametrisation

VALUES = StepValues(lr=np.array([1e-2]), mtp_weight=0.3, bias_rate=1e-2)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Trained:
    model: Transformer
    optimizer: FlatAdamW
    engine: SoloEngine


def make_trained(
    spec: ModelSpec | None = None, *, micro_batch_sequences: int = 8, is_autocast: bool = False
) -> Trained:
    spec = spec or make_model()
    rules = rule_table(spec, make_parametrisation(spec))
    model = build_model(spec)
    initialise(model, rules, seed=0)
    optimizer = FlatAdamW(
        model.named_parameters(), rules, [OptimizerSpec(peak_lr=1e-2, weight_decay=0.1)]
    )
    engine = SoloEngine(
        model,
        optimizer,
        micro_batch_sequences=micro_batch_sequences,
        device=CPU,
        is_autocast=is_autocast,
    )
    return Trained(model, optimizer, engine)


def make_tokens(num_sequences: int = 8, seed: int = 0, window: int = 34) -> TokenArray:
    return np.random.default_rng(seed).integers(0, 256, (num_sequences, window), dtype=np.int64)


def with_balance_loss(**changes: Any) -> ModelSpec:
    """Softmax routing with an auxiliary loss, as DeepSeek-V2."""
    moe = make_moe(score_func="softmax", balance="aux_loss", aux_loss_alpha=0.05, **changes)
    return replace(make_model(), moe=moe)
