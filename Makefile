# Two commands matter: `make run` and `make test`. Both make .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= runs/quickstart
export OMP_NUM_THREADS ?= 1
CODE := simulator scaling full_run reports sweeps tests benchmarks .ci

.PHONY: run test check core all bench long gpu clean

run: core ## Install, run the quickstart sweep, print where the result is
	$(BIN)/sweep run examples/quickstart/SWEEP.toml --out $(OUT)

test: all ## Install every extra; format, lint, types, import contracts, tests
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal $(if $(REQUIRE),--require=$(REQUIRE))

check: all ## What pre-commit runs: everything of `make test` but the slow half of the tests
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu and not processes"

core:
	@$(PYTHON) .ci/setup_venv.py $(VENV) core

all:
	@$(PYTHON) .ci/setup_venv.py $(VENV) all

bench: all ## Benchmarks whose numbers stand in benchmarks/README.md; a few minutes on 2 cores
	$(BIN)/python benchmarks/proxy_throughput.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/front_door.py
	$(BIN)/python benchmarks/data_batches.py

long: all ## Tests that take minutes each
	$(BIN)/python -m pytest -m slow

gpu: all ## Checks that need a CUDA device
	$(BIN)/python -m pytest -m gpu

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
