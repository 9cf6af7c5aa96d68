"""How fast the command line answers: wall time of whole processes, best and median of several.

Run: python benchmarks/front_door.py [--rounds 7]
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = (
    ("sweep --help", ["--help"]),
    ("sweep count deepseek-v3 --json", ["count", "deepseek-v3", "--json"]),
    ("sweep plan deepseek-v3 --json", ["plan", "deepseek-v3", "--json"]),
)


def seconds(arguments: list[str]) -> float:
    """Return the wall time of one call of the installed ``sweep`` command."""
    program = str(Path(sys.executable).with_name("sweep"))
    start = time.perf_counter()
    subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print one line a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    empty = [sys.executable, "-c", "pass"]
    bare = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(empty, check=True)
        bare.append(time.perf_counter() - start)
    print(f"{'an empty Python process':34} best {min(bare):.3f} s")
    for name, arguments in COMMANDS:
        times = [seconds(arguments) for _ in range(rounds)]
        print(f"{name:34} best {min(times):.3f} s  median {statistics.median(times):.3f} s")


if __name__ == "__main__":
    main()
