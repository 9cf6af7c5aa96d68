"""What commands print: one JSON document, or text of at most 100 columns."""

import json
import sys
from typing import Any

from rich.console import Console

from simulator.specs.codec import encode

__all__ = ["MAX_COLUMNS", "print_json", "stdout_console"]

MAX_COLUMNS = 100


def print_json(value: Any) -> None:
    """Write a specification, a record or plain values as the one document on standard output."""
    plain = value if isinstance(value, dict) else encode(value)
    json.dump(plain, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


class _StdoutConsole(Console):
    """Leaves a reader that has gone (``sweep plan | head``) to the entry point."""

    def on_broken_pipe(self) -> None:
        """Say so instead of ending the process with a failure."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return a console on standard output: as wide as the terminal, 100 columns at most or piped.

    Nothing is coloured by guess.
    """
    probe = Console()
    width = min(probe.width, MAX_COLUMNS) if probe.is_terminal else MAX_COLUMNS
    return _StdoutConsole(highlight=False, width=width)
