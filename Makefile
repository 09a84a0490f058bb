# make demo, make test: set everything up and run. Needs Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where pip is pointed at CPU builds of torch, this is one; elsewhere name yours (make test TORCH=...), because the
# general registry's build brings gigabytes of CUDA libraries.
TORCH ?= torch==2.13.0

# Hundreds of tests start Python: where a container's image sets this, each of them would compile palpate again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check format slow wheel docs screenshot bench validity fuzz soak supply clean

demo: $(VENV)/.palpate
	$(BIN)/palpate demo

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not browser and not cluster"

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

slow: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal -m "slow or browser or cluster"

# Builds the package, installs it into an empty environment and runs an audit and the demo there; a part of `make slow`.
wheel: $(VENV)/.dev
	$(BIN)/pytest -m slow tests/e2e/test_package.py

# The site, in build/site: open build/site/index.html, offline too. A broken link or a failing notebook ends it.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshot: demo $(VENV)/.dev
	$(BIN)/python -m tests.report.screenshot demo/run/report.html docs/report.png
	$(BIN)/python -m tests.workbench.screenshots demo docs

# Without the experiments, which take an hour or need public data: ade_*, nih_*, evidence_learning, *_power; same_results compares runs.
bench: $(VENV)/.dev
	@for script in $(filter-out benchmarks/ade_% benchmarks/nih_% benchmarks/same_% benchmarks/evidence_learning.py %_power.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Coverage, false alarms, power and wrong verdicts on simulated data, one table per audit; docs/validity.md shows it.
validity: $(VENV)/.dev
	$(BIN)/python -m validity $(VALIDITY)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "palpate needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.palpate: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable ".[demo]"
	touch $@

# LOCKED=1: exactly the files of requirements/dev.txt, by their hashes (Python 3.11 on Linux x86-64).
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
ifdef LOCKED
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
else
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[dev]"
endif
	touch $@ $(VENV)/.palpate

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable ".[demo,docs]"
	touch $@

clean:
	rm -rf $(VENV) demo build dist

# Broken files for every reader: each is read, or refused with one sentence within ten seconds. FUZZ="--inputs 20000 --seed 7" is shorter.
fuzz: $(VENV)/.dev
	$(BIN)/python -m reliability fuzz --keep $(FUZZ)

# Run after run in one process for an hour (SOAK=600 minutes): memory, files, processes and ports stay as they are.
soak: $(VENV)/.dev
	$(BIN)/python -m reliability soak --minutes $(or $(SOAK),60)

# For a release: the packages, what they are made of (CycloneDX), their licences and known weaknesses, in dist.
supply: $(VENV)/.dev
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m reliability supply --out dist
	$(BIN)/python -m reliability weaknesses
