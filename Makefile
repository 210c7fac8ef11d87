# Every target sets up what it needs from a Python 3.11 or newer with venv; nothing is installed outside .venv.
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)
endif
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
CLIENTS := $(VENV)/.installed-clients
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCKED := --constraint requirements.lock --build-constraint requirements.lock

.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench lock clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# 3.11's bundled pip knows neither --group nor --build-constraint.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: name one, as in 'make PYTHON=/path/to/python3.12'." >&2; exit 1; }
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.3' || { rm -rf $(VENV); exit 1; }

$(RUNTIME): pyproject.toml requirements.lock | $(BIN)/python
	$(PIP) install $(LOCKED) --editable .
	@touch $@

$(DEV): pyproject.toml requirements.lock | $(BIN)/python
	$(PIP) install $(LOCKED) --editable . --group dev
	@touch $@ $(RUNTIME)

$(CLIENTS): scripts/install_clients.py requirements.lock | $(DEV)
	@$(BIN)/python -m scripts.install_clients && touch $@ || true # what is missing is tried again next time, and told by its tests

demo: $(RUNTIME) ## The main job on real parts: a chain whose answer is lost and whose server dies, each effect once
	$(BIN)/counterfoil demo

test: $(DEV) $(CLIENTS) ## Every test, file by file on every core
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadfile

check: $(DEV) ## Format, lint, types, arrows between the rooms, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@echo 'pyright beside mypy, lint-imports and the generated pages'; \
	$(BIN)/pyright --pythonpath $(BIN)/python & pyright=$$!; \
	$(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/python -m scripts.generate_docs --check; status=$$?; \
	wait $$pyright && exit $$status

docs: $(DEV) ## Write the generated pages of docs/reference
	$(BIN)/python -m scripts.generate_docs

bench: $(RUNTIME) ## How fast it is, each figure beside its reference
	$(BIN)/counterfoil bench

lock: ## Resolve the newest allowed versions into requirements.lock
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.3'
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check --quiet install --editable . --group dev
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check freeze --exclude-editable > requirements.lock
	rm -rf $(VENV)-lock

clean: ## Remove the environment, caches and built archives
	rm -rf $(VENV) $(VENV)-lock dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
