"""``SWEEP.toml`` as a whole, and how it is read."""

from pathlib import Path

from simulator.specs.base import spec
from simulator.specs.codec import decode, load_toml
from sweeps.tables.search import (
    BudgetTable,
    FinalistsTable,
    IncumbentTable,
    RunTable,
    SearchTable,
    SpaceTable,
)
from sweeps.tables.target import (
    DataTable,
    EvaluationTable,
    HorizonTable,
    ParametrisationTable,
    ProxyTable,
    TargetTable,
)

__all__ = ["SweepFile", "load_sweep"]


@spec
class SweepFile:
    """``SWEEP.toml`` as a whole."""

    name: str | None = None
    """Left out: the target's name."""
    target: TargetTable
    data: DataTable
    proxy: ProxyTable = ProxyTable()
    parametrisation: ParametrisationTable = ParametrisationTable()
    horizon: HorizonTable = HorizonTable()
    evaluation: EvaluationTable = EvaluationTable()
    space: SpaceTable = SpaceTable()
    search: SearchTable = SearchTable()
    finalists: FinalistsTable = FinalistsTable()
    incumbent: IncumbentTable | None = None
    """Left out: the target's own recipe, mapped back to the proxy."""
    run: RunTable = RunTable()
    budget: BudgetTable = BudgetTable()


def load_sweep(path: Path) -> SweepFile:
    """Read a sweep file strictly: what it does not say stays unsaid, what it misspells is refused.

    Raises
    ------
    SpecError
        If the file is missing or not TOML, or for the first key or value that does not fit, with
        its dotted path and the nearest valid name.
    """
    return decode(SweepFile, load_toml(path))
