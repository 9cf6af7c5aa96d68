"""``sweep report``: the page and the tables of a study, whatever state it is in."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["report"]


def report(
    directory: Path,
    *,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Write a study's report again and print its outcome; nothing is trained or locked.

    Parameters
    ----------
    directory
        The folder that `sweep run` wrote; it may still be running.
    out
        The page to write; report.html in the study's folder where left out.
    json
        Print the outcome as one JSON document; null for a study without one yet.
    """
    from reports.render import write_report
    from reports.terminal import render_summary
    from simulator.records.reader import StudyReader
    from simulator.specs.errors import StudyError
    from sweeps.cli.output import print_json, stdout_console

    study = StudyReader(directory)
    try:
        written = write_report(study, out)
    except OSError as error:
        where = str(out or study.layout.report)
        fix = "Name another file with --out."
        raise StudyError(where, "must be writable", error.strerror, fix) from None
    if json:
        print_json(study.summary)
        return
    console = stdout_console()
    if study.summary is None:
        console.print("The study has no outcome yet; the page shows what has ended so far.")
    else:
        console.print(render_summary(study.summary))
    console.print(f"\nreport   {written}", soft_wrap=True)
