# Every target sets up what it needs: a virtual environment with the pinned packages.
PYTHON ?= python3
BIN := .venv/bin
export TOKENIZERS_PARALLELISM := false
export HF_HUB_DISABLE_TELEMETRY := 1
# Where an image sets it, each of the processes that tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install quickstart test test-hub test-clients test-lowest lint cards docs deploy-docs bench

install: .venv/installed

.venv/package: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[train]"
	touch $@

.venv/installed: .venv/package
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

# Needs no encoder: links of the embedded corpus, loaded by sentence-transformers alone, and one pair explained.
quickstart: .venv/package
	$(BIN)/python -m hfxling fit sample --languages zh vi --output outputs/quickstart
	$(BIN)/python examples/quickstart.py outputs/quickstart/model

# Files in the order of the tree: by number of tests, as pytest-xdist would have them, the slowest come last.
test: install
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# To the stand-in Hub on loopback and back, every method; also part of `make test`.
test-hub: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m hub

# The oldest clients that our folders are for, in an environment of their own.
.venv-clients/installed: tests/clients/constraints.txt
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check -c $< torch==2.13.0
	.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check -c $< sentence-transformers transformers fastembed \
		langchain-huggingface
	touch $@

test-clients: install .venv-clients/installed
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 \
		$(BIN)/python tests/clients/check.py .venv-clients/bin/python

# The oldest versions that pyproject.toml allows, in an environment of their own.
.venv-lowest/installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt torch
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e ".[test]"
	touch $@

test-lowest: .venv-lowest/installed
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 .venv-lowest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

cards: install
	$(BIN)/python docs/render.py

# The site, in build/site; a link that leads nowhere is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The site onto the branch gh-pages, as CI does after a push to main.
deploy-docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs gh-deploy --strict --force

bench: install
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/frozen_features.py
