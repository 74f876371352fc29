PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test lint install clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: install
	$(BIN)/dpdistill distill digits:train --out demo --overwrite
	$(BIN)/dpdistill evaluate demo --test digits:test
	$(BIN)/dpdistill verify demo

test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/pytest

lint: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) demo demo.run
