# Everything a developer does. `make demo` and `make test` are all that a fresh clone needs; they install first.
.DELETE_ON_ERROR:
.PHONY: install compiled demo up test check bench bench-gate chaos slow soak screenshots clean

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
TESTS ?= tests
ARGS ?=

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Laissez needs Python 3.11 or newer, and $(PYTHON) is older: make install PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -C editable_mode=compat -e .
	$(BIN)/python -m markets.engine.kernels
	touch $@

demo: install
	$(BIN)/python manage.py demo $(ARGS)

up: install
	$(BIN)/python manage.py up $(ARGS)

# Compiled once: or else every worker, and every process that a test starts, compiles all that it imports.
compiled: install
	$(BIN)/python -m compileall -q laissez markets tenants workers

test slow: export PYTHONDONTWRITEBYTECODE :=

test: compiled
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "not slow" $(TESTS) $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python manage.py check
	$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

bench: install
	$(BIN)/python -m tests.bench $(ARGS)

bench-gate: install
	$(BIN)/python -m tests.bench.gate $(ARGS)

chaos: install
	$(BIN)/python -m tests.chaos $(ARGS)

slow: compiled
	$(BIN)/python -m pytest -m slow --ignore tests/live $(TESTS) $(ARGS)
	$(BIN)/python -m pytest -m slow tests/live $(ARGS)

soak: install
	$(BIN)/python -m tests.soak $(ARGS)

screenshots: install
	$(BIN)/python -m tests.screenshots $(ARGS)

clean:
	rm -rf .venv .local build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
