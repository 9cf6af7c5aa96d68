"""A sweep resolved but for its data: all that a plan needs, and all that costs no reading."""

from dataclasses import dataclass

from scaling.scale import Transfer
from simulator.proxy import ProxyPlan
from simulator.proxy.shape import Ranks
from simulator.records.summary import Flag
from simulator.specs.data import DataSpec
from simulator.specs.errors import SpecError
from simulator.specs.run import (
    BatchSpec,
    EvalSpec,
    ExecutionSpec,
    OptimizerSpec,
    ParametrisationSpec,
    PhaseSpec,
    RunSpec,
)
from simulator.specs.schedule import ScheduleSpec
from sweeps.spec import (
    BudgetSpec,
    FinalistSpec,
    IncumbentSpec,
    SearchSpec,
    SpaceSpec,
    SweepSpec,
    TargetSpec,
)

__all__ = ["Draft", "check_vocabulary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A sweep resolved but for its data."""

    name: str
    target: TargetSpec
    proxy: ProxyPlan
    ranks: Ranks
    """How the proxy treats the latent ranks."""
    parametrisation: ParametrisationSpec
    transfer: Transfer
    num_steps: int
    batch: BatchSpec
    eval: EvalSpec
    optimizer: OptimizerSpec
    """The incumbent's; the space replaces learning rate and decay."""
    schedule: ScheduleSpec
    """The incumbent's."""
    mtp_weight: tuple[PhaseSpec, ...]
    bias_rate: tuple[PhaseSpec, ...]
    space: SpaceSpec
    search: SearchSpec
    finalists: FinalistSpec
    incumbent: IncumbentSpec
    execution: ExecutionSpec
    compile_reason: str
    """Why steps are compiled or not."""
    num_workers: int
    budget: BudgetSpec
    notes: tuple[str, ...]
    """Which value was taken from which rule or publication, one sentence each."""
    flags: tuple[Flag, ...]
    """What was found on the way that lowers confidence."""

    def with_data(self, data: DataSpec) -> SweepSpec:
        """Return the sweep, complete.

        Raises
        ------
        SpecError
            If the data hold ids that the proxy has no embedding for.
        """
        check_vocabulary(data.tokenizer.vocab_size, self.proxy.model.vocab_size)
        return SweepSpec(
            name=self.name,
            target=self.target,
            base=RunSpec(
                model=self.proxy.model,
                parametrisation=self.parametrisation,
                optimizer=self.optimizer,
                schedule=self.schedule,
                data=data,
                batch=self.batch,
                eval=self.eval,
                num_steps=self.num_steps,
                mtp_weight=self.mtp_weight,
                bias_rate=self.bias_rate,
                init_seed=0,
                data_seed=0,
            ),
            space=self.space,
            search=self.search,
            finalists=self.finalists,
            incumbent=self.incumbent,
            execution=self.execution,
            num_workers=self.num_workers,
            budget=self.budget,
        )


def check_vocabulary(needed: int, available: int) -> None:
    """Refuse data with more ids than the model has embeddings."""
    if needed > available:
        raise SpecError(
            "data.tokenizer.vocab_size",
            f"must not exceed the proxy's vocabulary ({available})",
            needed,
            "Use the target's own tokenizer, or a smaller one.",
        )
