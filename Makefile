PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/pip --disable-pip-version-check
CORES ?= auto
# Tests marked variants or slow: none, all, K/5 for one part of five, today for today's part.
VARIANTS ?= none
# Python keeps what it has compiled: every worker and every process that a test starts imports the same modules.
export PYTHONDONTWRITEBYTECODE =
DATA ?= $(DPDISTILL_DATA)
# Workers side by side: threads of BLAS would keep busy while they wait for each other.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(CORES) --maxprocesses 8 --dist worksteal
QUICK = tests/test_rooms.py tests/schema tests/sources tests/storage tests/accounting tests/certificate tests/publish \
	$(addprefix tests/private/test_,grid.py linear.py noise.py sampling.py)

.PHONY: demo test test-all types suite quick accuracy lint bundle install mutants mutation constraints clean docs coverage

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --no-compile -c constraints.txt -e '.[dev]'
	touch $(VENV)/.demo $@

# What a first run needs; everything else comes with `install`, which includes this.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --no-compile -c constraints.txt -e '.[digits]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/dpdistill demo --overwrite
	$(BIN)/dpdistill verify demo

test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --no-print-directory --jobs=2 types suite

# Before a release: variants and slow tests too.
test-all:
	$(MAKE) --no-print-directory test VARIANTS=all

# Side by side: types take one core for the time in which workers of the suite collect its tests.
types: install
	$(BIN)/pyright

suite: install
	$(PYTEST) --variants=$(VARIANTS) --durations=30

# Lines and branches that the suite runs: a table, build/coverage/coverage.xml for programs. Slower than `make test`.
coverage: install
	mkdir -p build/coverage
	$(PYTEST) --cov --cov-report=term --cov-report=xml

quick: install
	$(BIN)/ruff check .
	$(PYTEST) $(QUICK)

# About an hour on two quiet cores; the same command resumes. In the background: nohup make accuracy > accuracy.log 2>&1 &
accuracy: install
	$(PIP) install --quiet -c constraints.txt -e '.[tables,xgboost]'
	$(BIN)/python benchmarks/accuracy/gate.py --data "$(DATA)"

lint: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/pyright

mutants: install
	@$(BIN)/python tests/mutants/list_mutants.py

# About six hours on one quiet core; the same command resumes. MUTATION="--minutes 60 --rooms private" limits it.
mutation: install
	$(PIP) install --quiet -c constraints.txt -e '.[mutation]'
	$(BIN)/python tests/mutants/sample_mutants.py $(MUTATION)

# The documentation site, build/site, warnings as errors; its notebooks are run. NOTEBOOKS=false leaves them as they are.
docs: install
	$(PIP) install --quiet -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build

# Everything that installs without a network, for this platform and $(PYTHON): build/dpdistill-bundle-*.tar.
# BUNDLE="--extras tables" takes other extras.
bundle:
	rm -rf build/bundler
	$(PYTHON) -m venv build/bundler
	build/bundler/bin/pip --disable-pip-version-check install --quiet 'cyclonedx-bom==7.5.0'
	build/bundler/bin/python .ci/bundle $(BUNDLE)

# The newest versions within the bounds of pyproject.toml, as they were found in a fresh virtual environment.
constraints:
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip --disable-pip-version-check install --quiet -e '.[dev,docs,mutation]'
	(sed -n '/^#/p' constraints.txt; build/constraints/bin/pip freeze --exclude-editable) > build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

clean:
	rm -rf $(VENV) build/compiled demo demo.run
