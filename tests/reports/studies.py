"""Study directories with plausible content, written without training anything."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.records.layout import RunLayout, StudyLayout
from simulator.records.summary import (
    ConfigSummary,
    Flag,
    IncumbentSummary,
    NoiseSummary,
    StudySummary,
    TargetRecipe,
)
from simulator.records.types import (
    EvalPoint,
    ExecutionRecord,
    RunRecord,
    RunStatus,
    StepPoint,
    StudyRecord,
    TrialRecord,
)
from simulator.specs.codec import encode, fingerprint
from simulator.specs.data import DataSpec, SourceSpec, TokenizerSpec, ValidationSpec
from simulator.specs.run import (
    AdamWSpec,
    BatchSpec,
    EvalSpec,
    ExecutionSpec,
    ParametrisationSpec,
    PhaseSpec,
    RunSpec,
)
from simulator.specs.schedule import CosineShape, LinearShape, ScheduleSpec, WSDShape
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
from tests.reports.models import proxy_model, target_model

UNIGRAM_ENTROPY = 5.31
BEST_LR = 2.0**-8.2
SHAPES = {
    "linear_to_zero": LinearShape(),
    "wsd20_sqrt": WSDShape(),
    "cosine_to_10pct": CosineShape(),
    "target_published": WSDShape(decay_fraction=0.35, decay_shape="linear", final_factor=0.1),
}
INCUMBENT = {
    "peak_lr": 2.2e-3,
    "tau": 0.9,
    "warmup_ratio": 0.01,
    "schedule": "target_published",
}


@dataclass
class Options:
    """What the study should look like."""

    name: str = "quickstart"
    target_name: str = "deepseek-v3-mini"
    num_configs: int = 14
    num_steps: int = 500
    num_seeds: int = 3
    num_finalists: int = 4
    statuses: Mapping[int, RunStatus] = field(default_factory=lambda: {12: "diverged"})
    """Status of configurations that did not complete."""
    labels: Mapping[int, str] = field(default_factory=lambda: {0: "incumbent"})
    has_summary: bool = True
    seed: int = 7


def data_spec() -> DataSpec:
    return DataSpec(
        sources=(SourceSpec(kind="sympy"),),
        tokenizer=TokenizerSpec(kind="bpe", vocab_size=2048),
        validation=(ValidationSpec(name="held_out", num_sequences=128),),
        content_sha256="3f1c" * 16,
    )


def run_spec(params: Mapping[str, Any], seed: int, num_steps: int = 500) -> RunSpec:
    return RunSpec(
        model=proxy_model(),
        parametrisation=ParametrisationSpec(proxy=proxy_model(), target=target_model()),
        optimizer=AdamWSpec(
            peak_lr=params["peak_lr"],
            weight_decay=1 / (params["tau"] * params["peak_lr"] * num_steps),
        ),
        schedule=ScheduleSpec(
            warmup_steps=max(1, round(params["warmup_ratio"] * num_steps)),
            shape=SHAPES[params["schedule"]],
        ),
        data=data_spec(),
        batch=BatchSpec(global_batch_sequences=16, seq_len=128),
        eval=EvalSpec(interval_steps=25),
        num_steps=num_steps,
        mtp_weight=(PhaseSpec(until_fraction=1.0, value=0.3),),
        bias_rate=(PhaseSpec(until_fraction=0.9, value=6e-3),),
        init_seed=seed,
        data_seed=seed,
    )


def sweep_spec(options: Options) -> SweepSpec:
    return SweepSpec(
        name=options.name,
        target=TargetSpec(
            name=options.target_name,
            model=target_model(),
            num_tokens=4_096_000,
            global_batch_sequences=32,
            seq_len=128,
            shape=SHAPES["target_published"],
            warmup_steps=100,
            recipe_source="arXiv 2412.19437, section 4.2",
        ),
        base=run_spec(INCUMBENT, 0, options.num_steps),
        space=SpaceSpec(
            domains=(
                FloatDomain(name="peak_lr", low=BEST_LR / 8, high=BEST_LR * 8),
                ChoiceDomain(name="tau", values=(0.1, 0.2, 0.4, 0.8)),
                ChoiceDomain(name="warmup_ratio", values=(0.02, 0.06, 0.2)),
                ChoiceDomain(name="schedule", values=("linear_to_zero", "wsd20_sqrt")),
            ),
            schedules=tuple(NamedShape(name=n, shape=s) for n, s in SHAPES.items()),
        ),
        search=SearchSpec(sampler="tpe", num_trials=options.num_configs, batch_size=2, seed=0),
        finalists=FinalistSpec(
            max_configs=4, num_seeds=options.num_seeds, noise_replicates=4, delta_fraction=0.003
        ),
        incumbent=IncumbentSpec(params=INCUMBENT, source="arXiv 2412.19437, section 4.2"),
        execution=ExecutionSpec(micro_batch_sequences=16),
        num_workers=2,
        budget=BudgetSpec(max_wall_hours=None),
    )


def configurations(options: Options) -> list[dict[str, Any]]:
    """The incumbent and points spread over the space."""
    draw = random.Random(options.seed)
    names = ["linear_to_zero", "wsd20_sqrt", "cosine_to_10pct"]
    found: list[dict[str, Any]] = [dict(INCUMBENT)]
    for index in range(1, options.num_configs):
        octave = -3 + 6 * ((index * 0.618034) % 1)
        found.append(
            {
                "peak_lr": BEST_LR * 2.0**octave,
                "tau": draw.choice([0.1, 0.2, 0.4, 0.8]),
                "warmup_ratio": draw.choice([0.02, 0.06, 0.2]),
                "schedule": names[index % 3],
            }
        )
    return found[: options.num_configs]


def final_loss(params: Mapping[str, Any], config: int, seed: int) -> float:
    octaves = math.log2(params["peak_lr"] / BEST_LR)
    bowl = 0.030 * octaves**2 + 0.012 * max(octaves, 0) ** 3
    decay = 0.018 * math.log2(params["tau"] / 0.3) ** 2
    shape = {"linear_to_zero": 0.0, "wsd20_sqrt": 0.008}.get(params["schedule"], 0.03)
    warmup = 0.02 * abs(math.log2(params["warmup_ratio"] / 0.05)) / 2
    noise = random.Random(f"{config}/{seed}").gauss(0, 0.004)
    common = random.Random(f"seed {seed}").gauss(0, 0.008)
    return 3.412 + bowl + decay + shape + warmup + noise + common


def curve(last: float, step: int, num_steps: int, params: Mapping[str, Any]) -> float:
    """A loss curve that falls as a power and then a little more while the rate decays."""
    progress = step / num_steps
    late = {"linear_to_zero": 0.10, "cosine_to_10pct": 0.09}.get(params["schedule"], 0.16)
    bump = late * (1 - progress**6) if progress < 1 else 0.0
    slow = 0.004 / params["peak_lr"]
    power = ((step + 4) / 4) ** -0.55 * (1 + 0.12 * slow) - ((num_steps + 4) / 4) ** -0.55
    return min(7.62, last + bump + 4.1 * max(power, 0.0))


def rate(spec: RunSpec, step: int) -> float:
    """Close enough to the learning rate for a picture."""
    warmup, total = spec.schedule.warmup_steps, spec.num_steps
    if step <= warmup:
        return spec.optimizer.peak_lr * step / warmup
    u = (step - warmup) / max(1, total - warmup)
    match spec.schedule.shape:
        case LinearShape():
            factor = 1 - u
        case CosineShape():
            factor = 0.1 + 0.45 * (1 + math.cos(math.pi * u))
        case WSDShape(decay_fraction=share):
            factor = min(1.0, (1 - step / total) / share)
        case _:
            factor = 1.0
    return spec.optimizer.peak_lr * factor


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value if isinstance(value, dict) else encode(value), indent=1))


def write_lines(path: Path, values: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(encode(value)) + "\n" for value in values))


def execution_record() -> ExecutionRecord:
    return ExecutionRecord(
        device="cpu",
        device_name="generic x86-64",
        precision="fp32",
        num_rows=1,
        row=0,
        num_threads=1,
        torch_version="2.13.0",
        host="somewhere",
        pid=4242,
    )


def run_record(trial: TrialRecord, status: RunStatus, loss: float, spec: RunSpec) -> RunRecord:
    is_complete = status == "complete"
    done = spec.num_steps if is_complete else spec.num_steps // 3
    return RunRecord(
        fingerprint=trial.fingerprint,
        purpose=trial.purpose,
        status=status,
        reason="" if is_complete else "Training loss was not finite at step 167.",
        loss=loss if is_complete else None,
        losses={"held_out": loss} if is_complete else {},
        unigram_entropy=UNIGRAM_ENTROPY,
        num_steps_done=done,
        num_tokens=done * spec.batch.global_batch_tokens,
        train_flops=done * 2.4e10,
        wall_seconds=done * 0.041,
        execution=execution_record(),
        code_version="0.1.0+g1e00a86",
    )


def write_run(layout: RunLayout, trial: TrialRecord, status: RunStatus, spec: RunSpec) -> RunRecord:
    """One run's folder."""
    last = final_loss(trial.params, trial.config, trial.seed)
    record = run_record(trial, status, last, spec)
    tokens = spec.batch.global_batch_tokens
    jitter = random.Random(trial.fingerprint)
    points, evals = [], []
    for step in range(1, record.num_steps_done + 1):
        loss = curve(last, step, spec.num_steps, trial.params)
        points.append(
            StepPoint(
                step=step,
                tokens=step * tokens,
                loss=loss + jitter.gauss(0, 0.05),
                lr=rate(spec, step),
                grad_norm=0.8,
                is_clipped=False,
                data_seconds=0.001,
                forward_backward_seconds=0.035,
                apply_seconds=0.005,
            )
        )
        if step % spec.eval.interval_steps == 0 or step == spec.num_steps:
            evals.append(
                EvalPoint(
                    step=step,
                    tokens=step * tokens,
                    loss={"held_out": loss + jitter.gauss(0, 0.003)},
                    bits_per_byte={"held_out": loss * 0.42},
                    mtp_loss={"held_out": loss + 0.5},
                    seconds=0.2,
                )
            )
    write_json(layout.spec, spec)
    write_lines(layout.steps, points)
    write_lines(layout.evals, evals)
    write_json(layout.record, record)
    return record


def recipe(params: Mapping[str, Any], options: Options) -> TargetRecipe:
    lr = params["peak_lr"] * 0.83
    return TargetRecipe(
        peak_lr=lr,
        matrix_lr=lr / 8,
        embedding_lr=lr,
        weight_decay=1 / (params["tau"] * lr / 8 * 1000),
        warmup_steps=max(40, round(params["warmup_ratio"] * 1000)),
        schedule=params["schedule"],
        num_steps=1000,
        global_batch_tokens=4096,
        lr_interval_80=(lr * 0.8, lr * 1.22),
        ratios={"width": 8.0, "tokens": 4.0, "batch": 2.0, "tokens_per_param": 0.07},
        flags=(
            Flag(
                severity="amber",
                code="tokens_per_param",
                message="The target sees 0.07 times the proxy's tokens per active parameter; "
                "decay was moved along the power law of the averaging timescale.",
            ),
        ),
    )


def summarise(
    options: Options, trials: list[TrialRecord], records: Mapping[str, RunRecord]
) -> StudySummary:
    by_config: dict[int, dict[int, float]] = {}
    for trial in trials:
        loss = records[trial.fingerprint].loss
        if loss is not None:
            by_config.setdefault(trial.config, {})[trial.seed] = loss
    params = {trial.config: trial for trial in trials if trial.number == trial.config}
    means = {c: sum(seeds.values()) / len(seeds) for c, seeds in by_config.items()}
    ranked = sorted(means, key=lambda config: means[config])
    ranked.sort(key=lambda config: len(by_config[config]) == 1)
    best = means[ranked[0]]
    noise = 0.0042 if options.num_seeds > 1 else None

    def config_summary(config: int) -> ConfigSummary:
        seeds = by_config[config]
        is_finalist = len(seeds) > 1
        difference = means[config] - best
        return ConfigSummary(
            config=config,
            label=params[config].label,
            params=params[config].params,
            seeds=tuple(seeds),
            losses=tuple(seeds.values()),
            mean_loss=means[config],
            standard_error=0.0031 if is_finalist and config != ranked[0] else None,
            difference=difference,
            difference_in_noise=None if noise is None else difference / noise,
            is_finalist=is_finalist,
            recipe=recipe(params[config].params, options) if config in ranked[:5] else None,
        )

    rows = [config_summary(config) for config in ranked]
    statuses = [record.status for record in records.values()]
    incumbent = means.get(0)
    return StudySummary(
        name=options.name,
        verdict="resolved" if noise else "incomplete",
        statement="The best three configurations are told apart from the rest: configuration "
        f"{ranked[0]} is best, and the published recipe is {means.get(0, best) - best:.3f} nats "
        "worse than it.",
        top=tuple(rows[:3]),
        ties=tuple(row for row in rows[3:] if row.difference < rows[2].difference + 0.011),
        others=tuple(row for row in rows[3:] if row.difference >= rows[2].difference + 0.011),
        delta=0.003 * best,
        noise=None
        if noise is None
        else NoiseSummary(
            seed_std=0.0091, paired_std=noise, num_replicates=4, degrees_of_freedom=9
        ),
        noise_std=noise,
        incumbent=IncumbentSummary(
            config=0,
            source="arXiv 2412.19437, section 4.2",
            mean_loss=incumbent,
            gain=None if incumbent is None else incumbent - best,
            gain_standard_error=0.0034 if options.num_seeds > 1 else None,
        ),
        trials={status: statuses.count(status) for status in dict.fromkeys(statuses)},
        checks={
            "unigram_entropy": UNIGRAM_ENTROPY,
            "best_loss": best,
            "loss_below_unigram": 1 - best / UNIGRAM_ENTROPY,
            "lr_spread": 0.62,
            "lr_spread_in_noise": None if noise is None else 0.62 / noise,
            "lr_optimum_octaves_from_edge": 2.1,
        },
        flags=(
            Flag(
                severity="amber",
                code="small_proxy",
                message="The proxy has 4 attention heads, the smallest number at which results "
                "are known to transfer.",
            ),
            Flag(
                severity="info",
                code="merged_levels",
                message="Warmup levels 0.02 and 0.01 are the same number of steps on the proxy.",
            ),
        ),
        target_name=options.target_name,
        proxy_params=1_311_232,
        target_params=41_963_520,
        sweep_flops=2.7e14,
        target_flops=6.3e14,
        wall_seconds=214.0,
    )


def planned_trials(options: Options) -> list[TrialRecord]:
    """The ledger: every configuration once, then the best again under further seeds."""
    params = configurations(options)
    order = sorted(range(len(params)), key=lambda config: final_loss(params[config], config, 0))
    alive = [config for config in order if config not in options.statuses]
    finalists = [*alive[: options.num_finalists], *([0] if 0 not in alive[:4] and alive else [])]
    found = [(config, 0) for config in range(len(params))]
    found += [(config, seed) for seed in range(1, options.num_seeds) for config in finalists]
    return [
        TrialRecord(
            number=number,
            batch=-1 if seed or config == 0 else (config - 1) // 2,
            purpose="finalist" if seed else "search",
            config=config,
            params=params[config],
            seed=seed,
            label=options.labels.get(config, ""),
            fingerprint=fingerprint(run_spec(params[config], seed, options.num_steps)),
        )
        for number, (config, seed) in enumerate(found)
    ]


def write_head(root: Path, options: Options) -> None:
    head = StudyRecord(
        name=options.name,
        created="2026-11-30T21:40:00Z",
        code_version="0.1.0+g1e00a86",
        sweep=encode(sweep_spec(options)),
    )
    write_json(StudyLayout(root).study, head)


def write_study(root: Path, options: Options | None = None) -> Path:
    """Write a whole study to ``root`` and return it."""
    options = options or Options()
    layout = StudyLayout(root)
    write_head(root, options)
    trials = planned_trials(options)
    write_lines(layout.ledger, trials)
    records = {}
    for trial in trials:
        spec = run_spec(trial.params, trial.seed, options.num_steps)
        status = options.statuses.get(trial.config, "complete")
        records[trial.fingerprint] = write_run(layout.run(trial.fingerprint), trial, status, spec)
    if options.has_summary and any(record.loss is not None for record in records.values()):
        write_json(layout.summary, summarise(options, trials, records))
    return root
