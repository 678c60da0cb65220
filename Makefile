# Everything runs from a fresh checkout with Python 3.11+ and make; the first target that needs it builds .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench

.DEFAULT_GOAL := help
.PHONY: help nightly ui test test-slow test-postgres check bench bench-metrics bench-sync bench-soak bench-growth bench-quality lock clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | column -t -s "$$(printf '\t')"

$(VENV)/.runtime: requirements/runtime.lock requirements/model.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Threadhouse needs Python 3.11 or newer; set PYTHON=/path/to/python3.11.")'
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing the locked dependencies (about a minute, once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/runtime.lock -r requirements/model.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.runtime
	@echo "Installing the locked development tools"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

nightly: $(VENV)/.runtime ## set up, load the sample hub if the store is empty, run the whole nightly job
	@$(BIN)/threadhouse nightly --sample-if-empty

ui: $(VENV)/.runtime ## open the Dagster UI on localhost
	@$(BIN)/threadhouse ui

# Hundreds of processes start in the tests; without compiled modules each of them compiles the sources again.
test: $(VENV)/.dev ## every test except those marked slow, a file at a time on every core
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -m "not slow" --numprocesses auto --maxprocesses 4 --dist loadfile

test-slow: $(VENV)/.dev ## the longer runs
	@$(BIN)/pytest -m slow

test-postgres: $(VENV)/.dev ## all of tests/stores on Debian's PostgreSQL (apt-get install postgresql), by a login that is no superuser
	@$(BIN)/pytest -rs -s -m slow tests/stores/test_outside_postgres.py

check: $(VENV)/.dev ## lint, types, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

bench: $(VENV)/.dev ## benchmarks; tables on the terminal, JSON in bench/results
	@$(BIN)/python -m bench

bench-metrics: $(VENV)/.dev ## the metrics warehouse at its full size: a day of 10 million events, a year of 50 million (needs 10 GB of disk)
	@$(BIN)/python -m bench metrics --day-events 10000000 --year-events 50000000

bench-soak: $(VENV)/.dev ## ten minutes of writers, readers, a listener, a nightly and faults at the same time
	@$(BIN)/python -m bench soak --seconds 600

bench-growth: $(VENV)/.dev ## hubs of 1, 10 and 100 thousand units beside each other
	@$(BIN)/python -m bench growth --units 1000 10000 100000

bench-sync: $(VENV)/.dev ## what following changes costs in a hub of 100,000 units, and a reconcile with nothing to do
	@$(BIN)/python -m bench sync --units 100000 --threads 2000 --changed 10 100 1000

# LlamaIndex stands beside search there and nowhere else, so it gets an environment of its own.
$(BENCH_VENV)/.bench: requirements/bench.lock requirements/model.lock $(VENV)/.runtime
	@test -x $(BENCH_VENV)/bin/python || { echo "Creating $(BENCH_VENV)"; $(PYTHON) -m venv $(BENCH_VENV); }
	@echo "Installing the locked peers of the benchmarks"
	@$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/bench.lock -r requirements/model.lock
	@$(BENCH_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

bench-quality: $(BENCH_VENV)/.bench ## quality of search on public judgements, beside its parts and LlamaIndex
	@$(BENCH_VENV)/bin/python -m bench quality --sets xquad phapdien peps

lock: ## re-resolve the pinned dependencies (needs uv)
	uv pip compile pyproject.toml requirements/runtime.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/runtime.lock
	uv pip compile pyproject.toml requirements/runtime.in --group dev --override requirements/dev.overrides -c requirements/runtime.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/dev.lock
	uv pip compile pyproject.toml requirements/runtime.in requirements/bench.in -c requirements/runtime.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/bench.lock
	uv pip compile requirements/model.in --no-deps --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/model.lock

clean: ## remove the virtual environment (never the data)
	rm -rf $(VENV) $(BENCH_VENV)
