# Deltabrush: `make run` opens the editor, `make test` checks everything; both install what they need into .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint install install-dev clean

run: install
	$(BIN)/python app.py $(ARGS)

install: .venv/installed

install-dev: .venv/installed-dev

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Deltabrush needs Python 3.11 or newer.")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet --editable . -c constraints.txt
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]' -c constraints.txt
	touch $@

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

test: lint
	PYTHON=$(BIN)/python sh tests/web/install_browser.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

clean:
	rm -rf .venv build *.egg-info
