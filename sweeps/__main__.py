"""``python -m sweeps`` is the ``sweep`` command."""

from sweeps.cli import main

if __name__ == "__main__":
    main()
