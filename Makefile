# Everything runs in a virtual environment of its own; PYTHON names the interpreter that makes it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The versions that the tests passed with; `make CONSTRAINTS= …` installs the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
# PyPI's PyTorch for Linux brings gigabytes of CUDA libraries. Where no NVIDIA GPU is seen, PyTorch's index of CPU builds
# is asked as well, if it answers; `make TORCH_CPU_INDEX= …` never asks it.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

.PHONY: demo test test-all test-newest constraints compiler wheel docs lint types torture figures pictures bench \
	reproduce clean

demo: $(VENV)/.installed
	$(BIN)/nearsay demo --library demo-library

# A process a core and one more (tests/conftest.py), the tests of a file in one of them, the long ones first.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(VENV)/.installed-dev compiler
	$(PYTEST) -m "not long"

test-all: $(VENV)/.installed-dev compiler
	$(PYTEST)

test-newest:  # all of them with the newest versions that pyproject.toml allows
	rm -rf .venv-newest
	$(MAKE) test-all VENV=.venv-newest CONSTRAINTS=

constraints:  # the versions of the last `make test-newest`, or of an environment made for it
	$(MAKE) .venv-newest/.installed-dev VENV=.venv-newest CONSTRAINTS=
	{ echo "# Versions that the tests passed with, made by: make constraints"; \
	  .venv-newest/bin/python -m pip list --format=freeze --exclude-editable --exclude pip \
	  | sed 's/+.*//'; } > constraints.txt  # +: a build such as PyTorch's for CPUs, which any other may stand for

compiler: $(BIN)/python  # torch.compile builds C++ while it runs; nothing else does
	@$(BIN)/python -c 'import shutil, sys, sysconfig; from pathlib import Path; \
	sys.exit(not (shutil.which("g++") and Path(sysconfig.get_path("include"), "Python.h").exists()))' \
	|| echo "g++ or Python.h is missing, so torch.compile is not tested; on Debian: apt install g++ python3-dev"

wheel: $(VENV)/.installed-dev  # built, installed apart from the source, and tried
	$(BIN)/python tests/wheel.py

docs: $(VENV)/.installed-dev  # into build/docs; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

torture: $(VENV)/.installed-dev
	$(BIN)/python tests/torture.py

figures: $(VENV)/.installed-dev  # the pages that are generated: tables, commands, the Python API
	$(BIN)/python tests/benchmarks/readme_tables.py
	$(BIN)/python tests/command_reference.py
	$(BIN)/python tests/api_reference.py

pictures: $(VENV)/.installed-dev
	$(BIN)/python tests/app/ui/pictures.py

bench: $(VENV)/.installed-dev
	$(BIN)/python tests/benchmarks/indexing.py --parts encoding store million \
		--out tests/benchmarks/results/indexing.json

# make reproduce DATA=FOLDER: what the papers report beside what nearsay reaches with the data of FOLDER, which
# tests/benchmarks/reproduce.py describes. SIZE=medium and SIZE=base are for a GPU.
SIZE ?= small
reproduce: $(VENV)/.installed-dev
	@test -n "$(DATA)" || { echo "Name a folder with the data, as tests/benchmarks/reproduce.py has it: make reproduce DATA=FOLDER"; exit 1; }
	$(BIN)/python tests/benchmarks/reproduce.py --data "$(DATA)" --size $(SIZE)

clean:
	rm -rf $(VENV) .venv-newest demo-library build *.egg-info

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON); on Debian: apt install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nearsay needs Python 3.11 or newer; make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "The venv module is missing; on Debian: apt install python3-venv"; exit 1; }

# pip is quiet, so this says what is fetched.
INSTALL = @index=; \
	if uname -s | grep -qx Linux && ! nvidia-smi -L >/dev/null 2>&1 && test ! -e /dev/nvidiactl; then \
	if $(BIN)/python -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1] + "/torch/", timeout=5)' \
	$(TORCH_CPU_INDEX) 2>/dev/null; then index="--extra-index-url $(TORCH_CPU_INDEX)"; \
	elif test -n "$(TORCH_CPU_INDEX)"; then echo "No NVIDIA GPU was seen, but PyTorch's index of CPU builds," \
	"$(TORCH_CPU_INDEX), cannot be reached. Unless pip has a CPU build from elsewhere, it fetches CUDA libraries" \
	"too: about 3 GB, 6 GB on disk."; fi; fi; \
	echo "Installing into $(VENV), which takes some minutes."; \
	$(BIN)/python -m pip install --quiet $$index $(addprefix --constraint ,$(CONSTRAINTS)) --editable

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) '.[cpu,documents,ui]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $@ $(VENV)/.installed
