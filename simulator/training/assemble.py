"""Build everything runs are trained with from their specifications."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from simulator.data import Corpus
from simulator.model import build_model
from simulator.parametrisation import logit_factor, rule_table
from simulator.prefix import Stretch, count_steps, share_prefixes
from simulator.records.task import ShouldStopFn
from simulator.schedules import lr_factor, phase_value
from simulator.specs.codec import fingerprint
from simulator.specs.errors import SpecError
from simulator.specs.run import ExecutionSpec, RunSpec
from simulator.training.checkpoint import Checkpoints
from simulator.training.device_engine import DeviceEngine
from simulator.training.evaluate import Evaluator, eval_steps
from simulator.training.health import Inspector
from simulator.training.job import RunOutcome, TrainingJob, TrainingRun
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
from simulator.training.stepping import make_stepper, why_not_compiled

__all__ = ["RunDoors", "default_policies", "device_job", "step_values"]


def step_values(spec: RunSpec, step: int) -> StepValues:
    """Return what a run's schedules prescribe for update ``step``, counted from 0."""
    factor = lr_factor(spec.schedule, step, spec.num_steps)
    return StepValues(
        lr=np.array([spec.optimizer.peak_lr * factor]),
        mtp_weight=np.array([phase_value(spec.mtp_weight, step, spec.num_steps)]),
        bias_rate=np.array([phase_value(spec.bias_rate, step, spec.num_steps)]),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDoors:
    """Where one run's records and checkpoints go."""

    checkpoints: Checkpoints
    observers: Sequence[Observer]


def device_job(
    specs: Sequence[RunSpec],
    execution: ExecutionSpec,
    corpus: Corpus,
    *,
    compiled: Path | None,
    doors: Sequence[RunDoors],
    ended: Callable[[int, RunOutcome], None],
    should_stop: ShouldStopFn,
    clock: Callable[[], float],
) -> TrainingJob:
    """Return runs of one shape on one device, ready to train.

    Parameters
    ----------
    specs
        They differ in optimiser, schedule, length, evaluation and seeds only.
    compiled
        Folder of compiled code.
    doors
        One a run.
    """
    roots = share_prefixes(specs, is_shared=execution.shares_prefixes)
    num_rows = _num_rows(roots, execution.num_rows)
    engine, optimizer = _build_engine(specs[0], execution, num_rows, compiled)
    device = torch.device(execution.device)
    evaluator = Evaluator(
        engine.model_of,
        [corpus.validation(item.name) for item in specs[0].data.validation],
        batch_sequences=execution.micro_batch_sequences,
        device=device,
        is_autocast=execution.precision == "bf16",
    )
    inspector = Inspector(
        engine.model_of,
        optimizer,
        eps=specs[0].optimizer.eps,
        num_sequences=execution.micro_batch_sequences,
        device=device,
    )
    interval = execution.checkpoint_interval_steps
    return TrainingJob(
        engine=engine,
        num_rows=num_rows,
        runs=[
            _run(spec, engine, corpus, door, interval)
            for spec, door in zip(specs, doors, strict=True)
        ],
        roots=roots,
        evaluate=evaluator,
        inspect=inspector,
        ended=ended,
        should_stop=should_stop,
        clock=clock,
    )


def _num_rows(roots: Sequence[Stretch], wanted: int) -> int:
    """Return the rows worth having: with more, some would wait for others to end.

    At least two where more than one is wanted, so that what is left of an interrupted cohort rounds
    as the whole one did.
    """
    longest = max(root.stop for root in _ends(roots))
    return max(min(wanted, 2), min(wanted, -(-count_steps(roots) // longest)))


def _ends(stretches: Sequence[Stretch]) -> list[Stretch]:
    return [end for s in stretches for end in (_ends(s.children) if s.children else [s])]


def _run(
    spec: RunSpec, engine: DeviceEngine, corpus: Corpus, door: RunDoors, interval: int
) -> TrainingRun:
    def batches(number: int) -> TokenArray:
        return corpus.batch(
            number, num_sequences=spec.batch.global_batch_sequences, seed=spec.data_seed
        )

    evals = eval_steps(spec.eval, spec.num_steps)
    return TrainingRun(
        identity=fingerprint(spec),
        num_steps=spec.num_steps,
        tokens_per_step=spec.batch.global_batch_tokens,
        assign=lambda row: engine.assign(row, spec.optimizer),
        start=lambda row: engine.start(row, spec.optimizer, seed=spec.init_seed),
        batches=batches,
        schedule=lambda step: step_values(spec, step),
        is_eval_due=evals.__contains__,
        is_checkpoint_due=lambda step: interval > 0 and step % interval == 0,
        checkpoints=door.checkpoints,
        observers=door.observers,
        policies=default_policies(spec),
    )


def _build_engine(
    spec: RunSpec, execution: ExecutionSpec, num_rows: int, compiled: Path | None
) -> tuple[DeviceEngine, FlatAdamW]:
    device = torch.device(execution.device)
    _refuse_what_cannot_be_compiled(execution)
    rules = rule_table(spec.model, spec.parametrisation, spec.optimizer.muon_scale)
    model, mirror = (
        build_model(
            spec.model, logit_factor=logit_factor(spec.model, spec.parametrisation), device=device
        )
        for _ in range(2)
    )
    is_low = device.type == "cuda" or execution.precision == "bf16"
    optimizer = FlatAdamW(
        model.named_parameters(),
        rules,
        [spec.optimizer] * num_rows,
        muon_dtype=torch.bfloat16 if is_low else torch.float32,
    )
    engine = DeviceEngine(
        model,
        mirror,
        optimizer,
        rules=rules,
        num_rows=num_rows,
        micro_batch_sequences=execution.micro_batch_sequences,
        device=device,
        stepper=make_stepper(
            model,
            precision=execution.precision,
            is_compiled=execution.is_compiled,
            cache=compiled,
            shape=_chunk_shape(spec, execution, num_rows),
        ),
    )
    return engine, optimizer


def _refuse_what_cannot_be_compiled(execution: ExecutionSpec) -> None:
    reason = why_not_compiled(torch.device(execution.device).type)
    if execution.is_compiled and reason is not None:
        fix = "Leave it out, or install what is lacking."
        raise SpecError("run.compile", f"must not be true where {reason}", "true", fix)


def _chunk_shape(spec: RunSpec, execution: ExecutionSpec, num_rows: int) -> tuple[int, ...]:
    """Return the shape of a micro-batch when all rows are busy."""
    num_sequences = min(execution.micro_batch_sequences, spec.batch.global_batch_sequences)
    window = spec.batch.seq_len + 1 + spec.model.n_mtp_modules
    return (*((num_rows,) if num_rows > 1 else ()), num_sequences, window)
