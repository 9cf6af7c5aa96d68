"""``sweep resume``: go on with a study from its directory alone."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["resume"]


def resume(
    directory: Path,
    *,
    workers: int | None = None,
    retry_failed: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Go on with a study that was stopped, from its folder alone.

    Parameters
    ----------
    directory
        The folder that `sweep run` wrote.
    workers
        Processes that train, in place of the study's number; changes no result.
    retry_failed
        Run those trials again that failed or ran out of memory.
    json
        Print the outcome as one JSON document.
    """
    from sweeps.cli.driving import conduct
    from sweeps.drive import resume as resume_study

    return conduct(
        directory,
        lambda driver: resume_study(directory, driver, retry_failed=retry_failed),
        workers=workers,
        json=json,
    )
