# `make tour` shows the main job; `make test` runs every check. Both keep their environment in .venv and reuse it.
# Options go into ARGS: `make tour ARGS=--no-ask`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := src tests benchmarks examples tools
RUN_STAMP := $(VENV)/.run-$(shell cksum < requirements/run.txt 2>/dev/null | cut -d' ' -f1)
LADDER_STAMP := $(VENV)/.ladder-$(shell cat requirements/run.txt requirements/ladder.txt 2>/dev/null | cksum | cut -d' ' -f1)
DEV_STAMP := $(VENV)/.dev-$(shell cat requirements/*.txt 2>/dev/null | cksum | cut -d' ' -f1)
PIP_STAMP := $(VENV)/.pip
TORCH_STAMP := $(DEV_STAMP).torch
TOOLS_STAMP := $(DEV_STAMP).tools
COLLECT_STAMP := $(VENV)/.collected
WEB_STAMP := web/node_modules/.stamp
# Tests wait for processes, browsers and clusters a part of their time.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SITE := $(BIN)/python tools/site.py

# Hundreds of processes start in the tests: they start from byte code.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tour ladder test test-full lint types imports unit audit site docs pages freeze web bundle clean

tour: $(RUN_STAMP)
	@$(BIN)/python -m foretrace tour $(ARGS)

# The articles' programs on this machine: sets up torch first.
ladder: $(LADDER_STAMP)
	@$(BIN)/python -m foretrace lab ladder $(ARGS)

# All but the tests need one core each, and two run at a time; the tests use every core.
test:
	@$(MAKE) --no-print-directory --jobs=2 --output-sync types $(COLLECT_STAMP) web lint imports site audit
	@$(MAKE) --no-print-directory unit

# The same with every sweep whole, and the viewer in every window: up to an hour.
test-full:
	@FORETRACE_SWEEP=full $(MAKE) --no-print-directory test

lint: $(DEV_STAMP)
	@$(BIN)/ruff format --quiet --check $(CODE) || { echo "run: $(BIN)/ruff format $(CODE)"; exit 1; }
	@$(BIN)/ruff check --quiet $(CODE) && echo "ruff: clean"

types: $(DEV_STAMP)
	@$(BIN)/mypy

imports: $(DEV_STAMP)
	@$(BIN)/lint-imports --no-cache

unit: $(DEV_STAMP)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# One process imports every test before several do: they start from the byte code that it leaves, of the packages too.
$(COLLECT_STAMP): $(DEV_STAMP) $(shell find src/foretrace tests -name '*.py' 2>/dev/null)
	@said=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$said"; exit 1; }
	@touch $@

# Lists what an installation brings (build/sbom.json) and asks for known weaknesses, where the network allows.
audit: $(DEV_STAMP)
	@$(BIN)/python tools/audit.py

# Checks that the site builds: every link, anchor and name of the API reference leads somewhere.
site: $(DEV_STAMP)
	@said=$$($(SITE) 2>&1) && echo "site: builds" || { echo "$$said"; exit 1; }

docs: site
	@echo "wrote site/index.html (with search: python3 -m http.server -d site)"

# Generated pages, example output and the picture of the report, which needs a Chromium.
pages: $(DEV_STAMP)
	@for tool in tools/*_page.py tools/examples.py tools/pictures.py; do echo "$$tool"; $(BIN)/python $$tool || exit 1; done

# The pages' scripts: types, lint, unit tests, and whether the committed bundle is what web/ builds.
ifneq ($(shell command -v npm 2>/dev/null),)
web: $(WEB_STAMP)
	@cd web && npm run --silent check
else
web:
	@echo "web: skipped, there is no npm: the bundle was not rebuilt and compared"
endif

# The answers that tests/test_frozen.py compares, after a change that is meant: read the diff before you commit it.
freeze: $(DEV_STAMP)
	@$(BIN)/python tools/answers.py write tests/frozen --frozen

bundle: $(WEB_STAMP)
	@cd web && npm run --silent build

$(WEB_STAMP): web/package.json web/package-lock.json
	@cd web && npm ci --silent || { echo "could not install the packages of web/: is the network reachable?"; exit 1; }
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' 2>/dev/null \
		|| { echo "foretrace needs Python 3.11.5 or later: set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "could not create $(VENV): is the venv module installed (python3-venv)?"; exit 1; }

$(RUN_STAMP): $(VENV)/bin/python requirements/run.txt
	@echo "setting up $(VENV) (reading needs no torch)"
	@$(PIP) -r requirements/run.txt \
		|| { echo "could not install requirements/run.txt: is the network reachable?"; exit 1; }
	@$(PIP) --no-deps --no-build-isolation -e . \
		|| { echo "could not install foretrace itself into $(VENV)"; exit 1; }
	@$(BIN)/python -m compileall -q src/foretrace || true # an installed package starts from byte code as well
	@touch $@

# A failure here is one line, and the next run tries again.
$(LADDER_STAMP): $(RUN_STAMP) requirements/ladder.txt
	@echo "setting up torch for the ladder on this machine (a few minutes the first time)"
	@said=$$($(PIP) -r requirements/ladder.txt 2>&1) && touch $@ \
		|| { echo "torch could not be installed: $$(echo "$$said" | grep -m 1 '^ERROR' || echo "pip failed")"; }

# Most of these packages' 20,000 files are never imported: those that are get their byte code then. No package is in both
# lists, so that two processes install them side by side. The pip that comes with Python 3.11 takes twice as long over the
# index; it does as well, where there is no other.
$(DEV_STAMP): $(TORCH_STAMP) $(TOOLS_STAMP)
	@touch $@

$(PIP_STAMP): $(RUN_STAMP) requirements/pip.txt
	@echo "setting up the test environment (torch included; this takes a few minutes the first time)"
	@$(PIP) --no-compile -r requirements/pip.txt || echo "going on with the pip that is there"
	@touch $@

$(TORCH_STAMP): $(PIP_STAMP) requirements/ladder.txt
	@$(PIP) --no-compile -r requirements/ladder.txt \
		|| { echo "could not install requirements/ladder.txt: is the network reachable?"; exit 1; }
	@touch $@

$(TOOLS_STAMP): $(PIP_STAMP) requirements/dev.txt
	@$(PIP) --no-compile --no-deps -r requirements/dev.txt \
		|| { echo "could not install requirements/dev.txt: is the network reachable?"; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) web/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache build dist site
