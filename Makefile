# SPDX-License-Identifier: Apache-2.0
# Everything happens in .venv, made on first use and renewed when pyproject.toml or constraints.txt change.

PYTHON ?= python3
JOBS   ?= 2

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# Each stamp says that the package is installed: RUN with what users need, DEV with what tests need as well.
RUN  := $(VENV)/.installed
DEV  := $(VENV)/.installed-dev
# One file stays in one process, so that what it compiles is compiled once; tests/conftest.py puts the longest first.
PYTEST := $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-foolbox test-obp test-adapters lint format readme clean distclean
.NOTPARALLEL:

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUN)  ## Set up, then compare function-space inference with its rivals on a toy problem
	$(BIN)/fpovi demo

test: lint  ## Set up, then lint, check types and run the quick tests
	$(PYTEST)

test-all: lint  ## The same with the slow tests too
	$(PYTEST) -m "slow or not slow"

test-foolbox: $(DEV)  ## Install foolbox, then compare our attacks with its, number by number
	$(PIP) --editable '.[oracle-foolbox]'
	$(BIN)/pytest tests/robustness/test_foolbox.py --capture=no

test-obp: $(DEV)  ## Install the Open Bandit Pipeline, then compare estimates from logs with its, number by number
	$(PIP) --editable '.[oracle-obp]'
	$(BIN)/pytest tests/bandits/test_obp.py --capture=no

test-adapters: $(DEV)  ## Install bayesianbandits, scikit-activeml and scikit-optimize, then drive our adapters with them
	$(PIP) --editable '.[adapters]'
	$(BIN)/pytest tests/adapters

lint: $(DEV)  ## Set up, then check style, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(DEV)  ## Repair style and format where that can be done by itself
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

readme: $(RUN)  ## Make the tables of README and docs anew from the rows in results/
	$(BIN)/python tools/pages.py

clean:  ## Remove caches and build products
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## Remove the virtual environment too
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'fpovi needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing fpovi into $(VENV); the first time this takes a few minutes.'
	$(PIP) --editable .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing fpovi and its development tools into $(VENV); the first time this takes a few minutes.'
	$(PIP) --editable '.[dev]'
	@touch $(RUN) $@
