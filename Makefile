# setup: the environment in .venv      demo: audits a recorded capture
# quick: what needs no Spark, in half a minute      test: all parts, rules and recorded captures
# test-all: also what starts clusters, plants defects, or compares audits, in half an hour
# lint: style, types, architecture      wheel: the package      docs: the documentation site
# lab: checks reports of real Kafka clusters, in minutes      lab-full: on all releases, in hours
# prove: compares verdicts with an oracle's on random histories, HISTORIES of them, in hours
# mutants: changes the source of rules, all or NAMES, and lists the changes that no case notices

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_CAPTURE := zk-unclean-truncation-3.9
DEMO := build/demo
HISTORIES ?= 50000
SEED ?= 1

.PHONY: setup demo quick test test-all lint format docs wheel lab lab-full prove mutants clean
.DELETE_ON_ERROR:

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "epochaudit needs Python 3.11 or newer; set PYTHON=python3.x" >&2; exit 2; }
	@PYTHONPATH=. $(PYTHON) -m epochaudit.spark.java
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module; install python3-venv" >&2; exit 2; }
	@echo "installing into $(VENV), which takes minutes ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --upgrade --target $(VENV)/connect --group connect
	@echo "preparing Spark: jars, the archive of its classes, compiled code ..." >&2
	@$(BIN)/python -m epochaudit.spark.session || echo "going on without: all but --warehouse works" >&2
	@$(BIN)/python -m epochaudit.cli.class_archive || echo "going on without: an audit starts three seconds later" >&2
	@$(BIN)/python -m epochaudit.sources.request_log.compiled.scanner || echo "going on without: large request logs are read more slowly" >&2
	@touch $@

demo: setup
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@tar -xJf tests/captures/$(DEMO_CAPTURE).tar.xz -C $(DEMO) 2>/dev/null || $(BIN)/python -m tarfile -e tests/captures/$(DEMO_CAPTURE).tar.xz $(DEMO)
	@echo "An unclean leader election, recorded on a real Kafka 3.9.1 cluster: did consumers lose records?" >&2
	@$(BIN)/epochaudit audit $(DEMO)/$(DEMO_CAPTURE); status=$$?; \
	test $$status -eq 1 || { echo "exit status $$status, where findings (1) were expected" >&2; exit 2; }; \
	echo "Yes: the election discarded records that had been read (TR-06), and the consumers under TR-01 read on without" >&2; \
	echo "noticing. Exit status 1 says so to scripts; 0 means no findings, 2 that the audit could not run." >&2

quick: setup
	@$(BIN)/python -m pytest --numprocesses 2 --no-loadscope-reorder -m 'not spark and not slow'

test: setup lint
	@$(BIN)/python -m pytest --numprocesses 2 --no-loadscope-reorder -m 'not thorough'

test-all: setup lint
	@$(BIN)/python -m pytest --numprocesses 2 --no-loadscope-reorder

lint: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run make format" >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo 2>&1 | tail -n 3

format: setup
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo build/site/index.html

wheel: setup
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

lab: setup
	@$(BIN)/python -m lab --short

lab-full: setup
	@$(BIN)/python -m lab

prove: setup
	@$(BIN)/python -m prove --histories $(HISTORIES) --seed $(SEED)

mutants: setup
	@$(BIN)/python -m prove.mutants $(NAMES)

clean:
	@rm -rf $(VENV) build dist
