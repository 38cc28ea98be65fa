# Every target makes its own environment first: .venv, installed once per state of pyproject.toml and constraints.txt.
#
#   make quickstart    train and compare on the local pool
#   make test          lint, types, tests            ARGS="-k store" goes to pytest
#   make bench         JSON lines on stdout          ARGS="help" runs the named ones
#
# GPU=1 installs PyTorch with CUDA instead of the CPU build.

SHELL := bash
VENV := .venv
PYTHON := $(VENV)/bin/python
STATE := $(shell cat pyproject.toml constraints.txt scripts/make_env.sh | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/.installed-$(STATE)$(if $(GPU),-gpu)

.PHONY: quickstart test bench

quickstart: $(INSTALLED)
	$(PYTHON) -m trinity.run +experiment=quickstart $(ARGS)

test: $(INSTALLED)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -n auto --dist worksteal $(ARGS)

bench: $(INSTALLED)
	@$(PYTHON) -m tests.bench $(ARGS)

$(INSTALLED):
	@bash scripts/make_env.sh $(VENV) >&2
	@rm -f $(VENV)/.installed-*
	@touch $@
