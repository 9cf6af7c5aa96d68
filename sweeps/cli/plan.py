"""``sweep plan``: the dry run."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["plan"]


def plan(
    source: str,
    *,
    memory_gib: float | None = None,
    tokens: int | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Show what a sweep would do and cost, without training.

    Prints the proxy beside the target, what is scaled, kept and cut and why, the trials to be run,
    their cost beside the target run's, and what to be careful about.

    Parameters
    ----------
    source
        A SWEEP.toml, or a target alone: a config.json, a folder with one, or a built-in name such
        as deepseek-v3, planned with every default.
    memory_gib
        Memory of the device that will train, in GiB; found out where left out.
    tokens
        Tokens of the full run, for a target alone whose makers published none.
    json
        Print the plan as one JSON document.
    """
    import os

    from sweeps.cli.output import print_json, stdout_console
    from sweeps.cli.prepare import plan_source
    from sweeps.plan_render import render_plan

    made = plan_source(
        source,
        memory_gib=memory_gib,
        tokens=tokens,
        working_directory=Path.cwd(),
        environment=os.environ,
    )
    if json:
        print_json(made)
    else:
        console = stdout_console()
        console.print(render_plan(made))
        console.print(f"\nNext: {_next(source, is_file=made.data is not None)}", markup=False)


def _next(source: str, *, is_file: bool) -> str:
    if is_file:
        return f"sweep run {source}"
    return (
        f"write a SWEEP.toml whose [target] has config = {source!r}, and a [data] table; "
        "examples/quickstart/SWEEP.toml explains every line"
    )
