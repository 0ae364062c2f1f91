# Needs only Python >= 3.11, git and make. `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help demo test soak lint docs works bench agents examples lock clean bytecode
SHELL := /bin/sh

# Tried in this order; `make PYTHON=/path/to/python demo` puts one in front.
PYTHONS := $(PYTHON) python3.13 python3.12 python3.11 python3
VENV    := .venv/bin
PIP     := -m pip --disable-pip-version-check --quiet install
LOCKED  := $(PIP) --require-hashes --no-deps -r
OURS    := $(PIP) --no-deps --no-build-isolation -e .
COMMIT   = $(shell git rev-parse --short HEAD 2>/dev/null)

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' Makefile

demo: .venv/.runtime bytecode ## set up what running needs, then `overhand demo`
	$(VENV)/overhand demo

# More workers than cores: half of the time a test waits for what it started. In memory, for a disk is slow to sync and to
# forget the small files of thousands of projects; the soak runs on the disk.
test: .venv/.dev bytecode ## the test suite (ARGS="-k word" is passed on)
	$(VENV)/python -m pytest -n 4 -m "not soak" --memory -o tmp_path_retention_policy=failed $(ARGS)

soak: .venv/.dev bytecode ## kill loops and real agents: the commit's sample (SEED=N: another one; FULL=1: all)
	$(VENV)/python -m pytest -n 2 -m soak $(if $(FULL),,--sample=$(or $(SEED),$(COMMIT),0)) $(ARGS)

lint: .venv/.dev ## ruff, mypy --strict, import layers
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy --strict
	MYPYPATH=src:bench:tests $(VENV)/mypy --strict bench
	$(VENV)/lint-imports --no-logo

docs: .venv/.dev ## renew what the pages take from the code
	PYTHONPATH=tests $(VENV)/python -m docs.tables

works: .venv/.dev bytecode ## renew the guide's table of what works with which agent, by running them all
	PYTHONPATH=tests $(VENV)/python -m agents.works
	PYTHONPATH=tests $(VENV)/python -m docs.tables

bench: bench/.venv/.bench bytecode ## the figures of docs/numbers.md, against peers in their own environment
	bench/.venv/bin/python bench/run.py $(ARGS)

agents: .venv/bin/python ## real agents for the tests, pinned, into .agents/ (ALL=1: all of them)
	$(VENV)/python tools/agents.py $(if $(ALL),--all) $(ARGS)

examples: examples/.venv/.examples bytecode ## agents of other frameworks, with the frameworks' own fake models
	examples/.venv/bin/python -m pytest -c /dev/null --rootdir examples -p no:cacheprovider -q examples/check_examples.py $(ARGS)

# The locks name no index: whoever installs uses their own.
COMPILE := $(VENV)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
           --no-header --no-annotate --upgrade
lock: .venv/.dev ## renew every pinned version
	$(COMPILE) pyproject.toml --group dev -o requirements/dev.lock
	$(COMPILE) pyproject.toml -c requirements/dev.lock -o requirements/runtime.lock
	$(COMPILE) --group build -c requirements/dev.lock -o requirements/build.lock
	$(COMPILE) pyproject.toml bench/requirements.in --group build -c requirements/dev.lock -o bench/requirements.lock
	$(COMPILE) pyproject.toml examples/requirements.in --group build -c requirements/dev.lock -o examples/requirements.lock

clean: ## remove environments and caches, never work
	rm -rf .venv bench/.venv examples/.venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Start-up counts, and PYTHONDONTWRITEBYTECODE may be set: never leave compiling to the first import.
bytecode:
	@env -u PYTHONDONTWRITEBYTECODE $(VENV)/python -m compileall -q src

# Set-up. A stamp is newer than what it was made from, or it is made again.
.venv/.dev: .venv/.runtime requirements/dev.lock
	$(VENV)/python $(LOCKED) requirements/dev.lock
	@touch $@

.venv/.runtime: .venv/bin/python requirements/build.lock requirements/runtime.lock pyproject.toml
	$(VENV)/python $(LOCKED) requirements/build.lock
	$(VENV)/python $(LOCKED) requirements/runtime.lock
	$(VENV)/python $(OURS)
	@touch $@

bench/.venv/.bench: .venv/.runtime bench/.venv/bin/python bench/requirements.lock
	bench/.venv/bin/python $(LOCKED) bench/requirements.lock
	bench/.venv/bin/python $(OURS)
	@touch $@

examples/.venv/.examples: .venv/.runtime examples/.venv/bin/python examples/requirements.lock
	examples/.venv/bin/python $(LOCKED) examples/requirements.lock
	examples/.venv/bin/python $(OURS)
	@touch $@

# A name on PATH is no proof (version managers leave shims that only fail): the one that makes a venv is taken.
.venv/bin/python bench/.venv/bin/python examples/.venv/bin/python:
	@for python in $(PYTHONS); do \
	  "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  "$$python" -m venv --clear $(@:/bin/python=) || continue; \
	  echo "$(@:/bin/python=): $$($@ --version) by $$(command -v "$$python")"; exit 0; \
	done; \
	rm -rf $(@:/bin/python=); \
	echo "No Python >= 3.11 with venv here (tried: $(strip $(PYTHONS)))." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1
