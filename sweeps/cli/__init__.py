"""The ``sweep`` command: one front door, one module a command.

A command parses, calls one function of the package that owns the work, and prints. It may import
late, so that ``sweep --help`` answers at once. With ``--json`` it writes exactly one JSON document
to standard output; progress, logs and errors go to standard error.

Exit codes: 0 done; 2 the input is wrong; 3 a gate or check failed; 4 stopped by budget or
interrupt and resumable; 1 a defect of ours.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError

from simulator.specs.errors import EighthscaleError

__all__ = ["COMMANDS", "main", "make_app", "run_command"]

COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("plan", "sweeps.cli.plan:plan", "Show what a sweep would do and cost, without training."),
    ("run", "sweeps.cli.run:run", "Train the proxy many times and name the best three."),
    ("resume", "sweeps.cli.resume:resume", "Go on with a study that was stopped."),
    ("report", "sweeps.cli.report:report", "Write a study's report again."),
    ("count", "sweeps.cli.count:count", "Count a model's parameters by part and convention."),
)
"""Every command: its name, where its function is, and its line in the help."""

_HELP = """\
Sweep hyperparameters on a faithful 1/8-width proxy before paying for the full pre-training run.

Start with `sweep plan SWEEP.toml`, then `sweep run SWEEP.toml`. Every command takes --json.
"""


def make_app() -> App:
    """Return the command-line application; commands are imported when they are called."""
    app = App(
        name="sweep",
        help=_HELP,
        version=lambda: version("eighthscale"),
        suppress_keyboard_interrupt=False,
    )
    for name, where, summary in COMMANDS:
        app.command(where, name=name, help=summary)
    return app


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors of the user become one line.

    Parameters
    ----------
    arguments
        The words after ``sweep``.
    """
    try:
        result = make_app()(
            arguments, exit_on_error=False, print_error=False, result_action="return_value"
        )
    except EighthscaleError as error:
        return _complain(str(error), error.exit_code)
    except CycloptsError as error:
        return _complain(f"{error} See `sweep --help`.", 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 4)
    return result if isinstance(result, int) else 0


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        code = run_command(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (``sweep plan | head``): nothing is left to say, and
        # the interpreter must not try again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _complain(message: str, code: int) -> int:
    print(f"Error: {' '.join(message.split())}", file=sys.stderr)
    return code
