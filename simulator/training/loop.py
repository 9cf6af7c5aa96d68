"""The training loop: one for every engine, for one run or for many trained together.

Each row of the engine works off stretches: steps that one or several runs share. Rows need not be
at the same step. Where a stretch ends, what follows it first goes on in the same row, whatever else
follows is queued with a copy of the row's state, and a row without work takes the next in line.
"""

from simulator.training.job import TrainingJob
from simulator.training.rows import Rows

__all__ = ["train"]


def train(job: TrainingJob) -> None:
    """Train runs to their end, each from its last checkpoint if there is one.

    How a run ended is told to ``job.ended``. When ``should_stop`` ended the loop, runs still going
    are ``preempted`` and their state is in the checkpoints.

    Raises
    ------
    OSError
        If a checkpoint or an observer cannot write.
    """
    rows = Rows(job)
    while rows.fill():
        begun = job.clock()
        values, tokens = rows.values(), rows.tokens()
        loaded = job.clock()
        stats = job.engine.forward_backward(tokens, values)
        computed = job.clock()
        updated = rows.judge(stats)
        judged = job.clock()
        job.engine.apply(values, updated)
        rows.advance(values, stats, (loaded - begun, computed - loaded, job.clock() - judged))
        rows.measure(tokens, stats)
        rows.charge(job.clock() - begun)
        rows.save_due()
        rows.turn_over()
        if rows.has_work() and job.should_stop():
            rows.preempt()
            return
