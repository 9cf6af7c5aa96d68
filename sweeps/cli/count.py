"""``sweep count``: a model's parameters."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["count"]


def count(config: str, *, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Count a model's parameters by part and by every definition in use.

    Published sizes follow different definitions; the table says which number fits which.

    Parameters
    ----------
    config
        A config.json, a folder with one, or a built-in name such as deepseek-v3.
    json
        Print the count as one JSON document.
    """
    from sweeps.cli.output import print_json, stdout_console
    from sweeps.model_count import count_target, render_count
    from sweeps.recipe import find_target

    counted = count_target(find_target(config, root=Path.cwd()))
    if json:
        print_json(counted)
    else:
        stdout_console().print(render_count(counted))
