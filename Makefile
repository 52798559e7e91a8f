# Everything that a person or CI runs. `make help` lists it.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest

.PHONY: help demo check lint test cluster bench reference clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

demo: $(VENV)/.demo  ## kill a real training job three times and compare the result bit for bit
	$(BIN)/python demo/demo.py

check: $(VENV)/.test lint  ## static checks and the fast tests: seconds
	$(PYTEST) -q -n 2 -m "not slow"

lint: $(VENV)/.test  ## style, types, layers, generated pages
	$(BIN)/ruff check src tests examples demo bench scripts
	$(BIN)/ruff format --check src tests examples demo bench scripts
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/gen_reference.py --check

# More workers than cores: most of the long tests wait for processes, for a grace time or for a hang.
test: $(VENV)/.test lint  ## everything, as CI runs it: minutes
	$(PYTEST) -n 3 --dist worksteal -m "not cluster"
	$(PYTEST) -n 4 -m cluster tests/cluster

cluster: $(VENV)/.test  ## a Slurm cluster of four nodes on this machine, to try things on, until Ctrl-C
	@cd tests && exec $(abspath $(BIN))/python -m cluster

bench: $(VENV)-bench/.peers  ## measure against peers and the machine; prints tables; hours
	$(VENV)-bench/bin/python bench/save.py
	$(VENV)-bench/bin/python bench/recover.py
	$(VENV)-bench/bin/python bench/manifest.py
	$(VENV)-bench/bin/python bench/startup.py
	$(VENV)-bench/bin/python bench/apps.py

reference: $(VENV)/.test  ## write docs/reference/ from the code
	$(BIN)/python scripts/gen_reference.py

clean:  ## remove what was built here
	rm -rf $(VENV) $(VENV)-bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/results

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lastgood needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: on Debian or Ubuntu, apt install python3-venv"; exit 1; }
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	$(PIP) install -e . --group demo
	@touch $@

$(VENV)/.test: $(VENV)/.venv pyproject.toml
	$(PIP) install -e . --group test --group lint
	@touch $@ $(VENV)/.demo

# The libraries that the benchmarks compare with, in an environment of their own.
$(VENV)-bench/.peers: pyproject.toml bench/requirements-peers.txt
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VENV)-bench/bin/python -m pip install --quiet -e . -r bench/requirements-peers.txt
	$(VENV)-bench/bin/python -m pip install --quiet --no-deps dlrover==0.6.1
	@touch $@
