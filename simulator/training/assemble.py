"""Build everything one run is trained with from its specification."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from simulator.data import Corpus
from simulator.model import build_model, initialise
from simulator.parametrisation import logit_factor, rule_table
from simulator.records.task import ShouldStopFn
from simulator.schedules import lr_factor, phase_value
from simulator.specs.run import ExecutionSpec, RunSpec
from simulator.training.checkpoint import Checkpoints
from simulator.training.evaluate import Evaluator, eval_steps
from simulator.training.health import Inspector
from simulator.training.loop import TrainingJob
from simulator.training.observers import Observer
from simulator.training.optim import FlatAdamW
from simulator.training.policies import Policy
from simulator.training.policies.collapse import RouterCollapsePolicy, full_collapse
from simulator.training.policies.divergence import (
    DivergencePolicy,
    NonFinitePolicy,
    divergence_window,
)
from simulator.training.records import StepValues, TokenArray
from simulator.training.solo import SoloEngine

__all__ = ["default_policies", "solo_job", "step_values"]


def step_values(spec: RunSpec, step: int) -> StepValues:
    """Return what a run's schedules prescribe for update ``step``, counted from 0."""
    factor = lr_factor(spec.schedule, step, spec.num_steps)
    return StepValues(
        lr=np.array([spec.optimizer.peak_lr * factor]),
        mtp_weight=phase_value(spec.mtp_weight, step, spec.num_steps),
        bias_rate=phase_value(spec.bias_rate, step, spec.num_steps),
    )


def default_policies(spec: RunSpec) -> tuple[Policy, ...]:
    """Return the policies every run has: they stop what cannot recover, and nothing else."""
    warmup_steps = spec.schedule.warmup_steps
    policies: list[Policy] = [
        NonFinitePolicy(),
        DivergencePolicy(warmup_steps=warmup_steps, window=divergence_window(spec.num_steps)),
    ]
    moe = spec.model.moe
    if moe is not None and moe.n_routed_experts > moe.n_activated_experts:
        policies.append(
            RouterCollapsePolicy(
                limit=full_collapse(moe),
                warmup_steps=warmup_steps,
                num_steps=spec.num_steps,
                balance_steps=_balance_steps(spec),
            )
        )
    return tuple(policies)


def _balance_steps(spec: RunSpec) -> int:
    """Return the updates in which the balance bias travels from 0 to 1, the range of scores."""
    fastest = max((phase.value for phase in spec.bias_rate), default=0.0)
    return math.ceil(1.0 / fastest) if fastest > 0 else 0


@dataclass(frozen=True, slots=True)
class _Parts:
    engine: SoloEngine
    evaluator: Evaluator
    inspector: Inspector


def solo_job(
    spec: RunSpec,
    execution: ExecutionSpec,
    corpus: Corpus,
    *,
    checkpoints: Checkpoints,
    observers: Sequence[Observer],
    should_stop: ShouldStopFn,
    clock: Callable[[], float],
) -> TrainingJob:
    """Return a run on one device, ready to train; its initial weights depend on the seed alone."""
    parts = _build(spec, execution, corpus)
    evals = eval_steps(spec.eval, spec.num_steps)
    interval = execution.checkpoint_interval_steps

    def batches(number: int) -> TokenArray:
        return corpus.batch(
            number, num_sequences=spec.batch.global_batch_sequences, seed=spec.data_seed
        )

    return TrainingJob(
        engine=parts.engine,
        num_rows=1,
        num_steps=spec.num_steps,
        tokens_per_step=spec.batch.global_batch_tokens,
        batches=batches,
        schedule=lambda step: step_values(spec, step),
        evaluate=parts.evaluator,
        inspect=parts.inspector,
        is_eval_due=evals.__contains__,
        is_checkpoint_due=lambda step: interval > 0 and step % interval == 0,
        checkpoints=checkpoints,
        observers=observers,
        policies=default_policies(spec),
        should_stop=should_stop,
        clock=clock,
    )


def _build(spec: RunSpec, execution: ExecutionSpec, corpus: Corpus) -> _Parts:
    device = torch.device(execution.device)
    is_autocast = execution.precision == "bf16"
    rules = rule_table(spec.model, spec.parametrisation)
    model = build_model(
        spec.model, logit_factor=logit_factor(spec.model, spec.parametrisation), device=device
    )
    initialise(model, rules, spec.init_seed)
    optimizer = FlatAdamW(model.named_parameters(), rules, [spec.optimizer])
    num_sequences = execution.micro_batch_sequences
    engine = SoloEngine(
        model,
        optimizer,
        micro_batch_sequences=num_sequences,
        device=device,
        is_autocast=is_autocast,
    )
    evaluator = Evaluator(
        model,
        [corpus.validation(item.name) for item in spec.data.validation],
        batch_sequences=num_sequences,
        device=device,
        is_autocast=is_autocast,
    )
    inspector = Inspector(
        model, optimizer, spec.optimizer, num_sequences=num_sequences, device=device
    )
    return _Parts(engine, evaluator, inspector)
