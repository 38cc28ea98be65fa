# Every target makes its own environment first: .venv, installed once per state of pyproject.toml and constraints.txt.
#
#   make env           the environment alone
#   make quickstart    train and compare on the local pool
#   make test          lint, types, tests            ARGS="-k store" goes to pytest
#   make bench         JSON lines on stdout          ARGS="help" runs the named ones
#   make mutate        mutation testing, JSON lines  ARGS="protocol --every" plants all faults of one group
#
# GPU=1 installs PyTorch with CUDA instead of the CPU build.

SHELL := bash
VENV := .venv
PYTHON := $(VENV)/bin/python
STATE := $(shell cat pyproject.toml constraints.txt scripts/make_env.sh | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/.installed-$(STATE)$(if $(GPU),-gpu)

.PHONY: env quickstart test bench mutate

env: $(INSTALLED)
	@echo "ready; now: source $(VENV)/bin/activate"

quickstart: $(INSTALLED)
	$(PYTHON) -m trinity.run +experiment=quickstart $(ARGS)

test: $(INSTALLED)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -n auto --dist worksteal $(ARGS)

bench: $(INSTALLED)
	@$(PYTHON) -m tests.bench $(ARGS)

mutate: $(INSTALLED)
	@$(PYTHON) -m uv pip install --quiet --python $(PYTHON) --constraint constraints.txt --group mutation >&2
	@$(PYTHON) scripts/mutate.py $(ARGS)

$(INSTALLED):
	@bash scripts/make_env.sh $(VENV) >&2
	@rm -f $(VENV)/.installed-*
	@touch $@
