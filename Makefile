# Everything runs in a virtual environment of its own; PYTHON names the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test docs lint types figures pictures bench clean

demo: $(VENV)/.installed
	$(BIN)/nearsay demo --library demo-library

test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile  # a process a core, a file in one

docs: $(VENV)/.installed-dev  # into build/docs; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

figures: $(VENV)/.installed-dev  # the pages that are generated: tables, commands, the Python API
	$(BIN)/python tests/benchmarks/readme_tables.py
	$(BIN)/python tests/command_reference.py
	$(BIN)/python tests/api_reference.py

pictures: $(VENV)/.installed-dev
	$(BIN)/python tests/app/ui/pictures.py

bench: $(VENV)/.installed-dev
	$(BIN)/python tests/benchmarks/indexing.py --out tests/benchmarks/results/indexing.json

clean:
	rm -rf $(VENV) demo-library build *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nearsay needs Python 3.11 or newer; make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The venv module is missing; on Debian: apt install python3-venv"; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[cpu,documents,ui]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.installed
