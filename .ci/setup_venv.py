"""Make or refresh the virtual environment; needs nothing but a Python with pip and venv.

Usage: python3 .ci/setup_venv.py VENV core|all

Torch comes first and alone, by the pin in constraints.txt, so that no other package's resolver
chooses a build. If the Python in use already has a new enough torch, the environment sees it and
the pin is dropped. A stamp file makes a second call with unchanged inputs free.
"""

import hashlib
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
EXTRAS = "ray,deepspeed,data,report,monitor,dev"
OLDEST_TORCH = (2, 9)


def has_torch() -> bool:
    """Return whether the running Python brings a torch that is new enough."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return False
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2]) >= OLDEST_TORCH


def stamp(kind: str) -> str:
    """Return a digest of everything the environment depends on."""
    digest = hashlib.sha256(f"{kind} {ROOT} {sys.version} {has_torch()}".encode())
    for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def install(python: Path, *arguments: str) -> None:
    """Run pip of the environment; its failure is ours."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print("installing:", *arguments, flush=True)
    subprocess.run([*command, *arguments], check=True)


def main() -> int:
    """Make the environment named on the command line."""
    target, kind = Path(sys.argv[1]), sys.argv[2]
    stamp_file = target / f".installed-{kind}"
    if stamp_file.exists() and stamp_file.read_text() == stamp(kind):
        return 0
    system_torch = has_torch()
    if not (target / "bin" / "python").exists():
        venv.create(target, with_pip=True, system_site_packages=system_torch)
    pins = CONSTRAINTS.read_text().splitlines()
    torch_pin = next(line for line in pins if line.startswith("torch=="))
    if system_torch:
        pins.remove(torch_pin)
    used = target / "constraints.txt"
    used.write_text("\n".join(pins) + "\n")
    python = target / "bin" / "python"
    if not system_torch:
        install(python, torch_pin)
    package = str(ROOT) if kind == "core" else f"{ROOT}[{EXTRAS}]"
    install(python, "--constraint", str(used), "--editable", package)
    stamp_file.write_text(stamp(kind))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"installation failed (exit {error.returncode}): see pip's message above")
