"""Training: one loop over an engine, with arguments, observers and policies."""

from simulator.training.engine import Engine
from simulator.training.loop import TrainingJob, TrainingOutcome, train
from simulator.training.observers import Observer
from simulator.training.policies import Policy
from simulator.training.run import execute_run

__all__ = [
    "Engine",
    "Observer",
    "Policy",
    "TrainingJob",
    "TrainingOutcome",
    "execute_run",
    "train",
]
