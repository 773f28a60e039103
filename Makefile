# Everything needs only Python 3.11+ on the PATH; `make PYTHON=python3.13 test` picks another interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := UV_PROJECT_ENVIRONMENT=$(VENV) $(VENV)/tools/bin/uv

.PHONY: demo test lint bench setup clean

demo: setup
	@echo "Evaluating examples/support: recorded answers, no model, no key. Some cases fail on purpose."
	@$(BIN)/holodeck-action run examples/support/agent.yaml -o holodeck-results/demo; \
	status=$$?; \
	echo "exit code $$status (0 all gates pass, 1 a gate is violated); the record is in holodeck-results/demo"; \
	test $$status -eq 1

test: lint
	$(BIN)/pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m bench

setup: $(VENV)/.synced

$(VENV)/tools/bin/uv:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'holodeck-action needs Python 3.11 or newer: make PYTHON=python3.12 …')"
	$(PYTHON) -m venv $(VENV)/tools
	$(VENV)/tools/bin/pip install --quiet --disable-pip-version-check "uv>=0.8,<1"

$(VENV)/.synced: pyproject.toml uv.lock $(VENV)/tools/bin/uv
	$(UV) sync --frozen --quiet --compile-bytecode --python "$$($(VENV)/tools/bin/python -c 'import sys; print(sys.executable)')"
	@touch $@

clean:
	rm -rf $(VENV) holodeck-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
