"""``sweep run``: a study from its file to its outcome."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["run"]


def run(
    source: Path,
    *,
    out: Path | None = None,
    workers: int | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Train the proxy under many hyperparameters and name the best three for the target.

    Stops in order on Ctrl-C and says how to go on. The same sweep in the same folder goes on where
    it stopped; another sweep there is refused.

    Parameters
    ----------
    source
        A SWEEP.toml, or a folder with one.
    out
        Folder of the study; runs/NAME where left out.
    workers
        Processes that train, in place of the file's number; changes no result.
    json
        Print the outcome as one JSON document.
    """
    import os

    from simulator.specs.codec import encode
    from sweeps.brief import render_brief
    from sweeps.cli.driving import cache_directory, conduct, stderr_console
    from sweeps.cli.opening import refuse_impossible, study_directory, sweep_path
    from sweeps.cli.prepare import plan_file
    from sweeps.drive import Opening, start
    from sweeps.file import load_sweep
    from sweeps.machine import look_at_machine
    from sweeps.resolve import resolve

    path = sweep_path(source)
    file = load_sweep(path)
    machine = look_at_machine(file.run.device, os.environ)
    draft, plan = plan_file(file, root=path.parent, machine=machine, num_workers=workers)
    root = study_directory(out, draft.name)
    stderr_console().print(render_brief(plan))
    refuse_impossible(plan)
    sweep = resolve(file, root=path.parent, cache=cache_directory(), machine=machine)
    opening = Opening(source=path.read_text(encoding="utf-8"), plan=encode(plan))
    return conduct(
        root, lambda driver: start(root, sweep, opening, driver), workers=workers, json=json
    )
