"""Trials per hour on this machine: two one-thread workers against one worker with two threads.

Run: python benchmarks/workers.py [--rounds 5] [--trials 4] [--steps 100] [--json]

Both arms train the same trials of the quickstart's proxy through the process executor, each trial a
cohort of its own, in turn, each arm with workers that are already up (one unmeasured trial each
comes first).
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from pathlib import Path

from simulator.records.task import TrainTask
from simulator.specs.codec import fingerprint
from simulator.training import execute_cohort
from sweeps.executors import Ended, Lost
from sweeps.executors.process import ProcessExecutor, thread_environment
from sweeps.file import load_sweep
from sweeps.resolve import resolve
from sweeps.space import apply
from sweeps.spec import SweepSpec

QUICKSTART = Path(__file__).resolve().parent.parent / "examples" / "quickstart" / "SWEEP.toml"
ARMS = {"2 workers x 1 thread": (2, 1), "1 worker x 2 threads": (1, 2)}


def make_tasks(
    sweep: SweepSpec, folder: Path, *, num_trials: int, num_steps: int, num_threads: int
) -> list[TrainTask]:
    """Return trials of the incumbent's configuration that differ in their seed."""
    tasks = []
    for seed in range(num_trials):
        full = apply(sweep, sweep.incumbent.params, seed)
        schedule = dataclasses.replace(full.schedule, warmup_steps=num_steps // 10)
        spec = dataclasses.replace(full, num_steps=num_steps, schedule=schedule)
        task = TrainTask(
            spec=spec,
            execution=dataclasses.replace(sweep.execution, num_threads=num_threads),
            purpose="search",
            directory=folder / fingerprint(spec),
            cache_directory=folder / "cache",
        )
        tasks.append(task)
    return tasks


def run_all(executor: ProcessExecutor, tasks: list[TrainTask]) -> float:
    """Return the seconds until every task has ended."""
    start = time.perf_counter()
    for task in tasks:
        executor.submit([task])
    left = len(tasks)
    while left:
        for event in executor.events(0.5):
            if isinstance(event, Lost) or (
                isinstance(event, Ended) and event.record.status != "complete"
            ):
                raise SystemExit(f"a trial did not complete: {event}")
            left -= isinstance(event, Ended)
    return time.perf_counter() - start


def trials_per_hour(
    sweep: SweepSpec, arm: tuple[int, int], *, num_trials: int, num_steps: int
) -> float:
    """Time one arm once."""
    num_workers, num_threads = arm
    environment = thread_environment(num_threads)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessExecutor(
            execute_cohort, num_workers=num_workers, environment=environment
        ) as executor,
    ):
        warm = make_tasks(
            sweep,
            Path(folder) / "warm",
            num_trials=num_workers,
            num_steps=10,
            num_threads=num_threads,
        )
        run_all(executor, warm)
        tasks = make_tasks(
            sweep,
            Path(folder) / "timed",
            num_trials=num_trials,
            num_steps=num_steps,
            num_threads=num_threads,
        )
        return num_trials / run_all(executor, tasks) * 3600


def main() -> None:
    """Alternate the arms and print the median of each and of their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        sweep = resolve(load_sweep(QUICKSTART), root=QUICKSTART.parent, cache=Path(cache))
    rates: dict[str, list[float]] = {name: [] for name in ARMS}
    for _ in range(options.rounds):
        for name, arm in ARMS.items():
            rate = trials_per_hour(sweep, arm, num_trials=options.trials, num_steps=options.steps)
            rates[name].append(rate)
    first, second = rates.values()
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    if options.json:
        print(json.dumps({"trials_per_hour": rates, "ratio": ratios}))
        return
    print(f"trials of {options.steps} steps, quickstart proxy, {options.rounds} alternated rounds")
    for name, values in rates.items():
        print(f"{name:22} {statistics.median(values):8.1f} trials an hour")
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"ratio                  {statistics.median(ratios):8.2f} ({spread})")


if __name__ == "__main__":
    main()
