"""Training: one loop over an engine, with arguments, observers and policies."""

from simulator.training.cohort import execute_cohort
from simulator.training.engine import Engine
from simulator.training.job import RunOutcome, TrainingJob, TrainingRun
from simulator.training.loop import train
from simulator.training.observers import Observer
from simulator.training.policies import Policy
from simulator.training.run import execute_run

__all__ = [
    "Engine",
    "Observer",
    "Policy",
    "RunOutcome",
    "TrainingJob",
    "TrainingRun",
    "execute_cohort",
    "execute_run",
    "train",
]
