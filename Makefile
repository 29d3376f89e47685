# Everything runs in .venv, which is made from the lock on first use and left alone while it is current.
# To use an environment of your own instead (conda, a container): make run AMPCOURSE_VENV="$CONDA_PREFIX"

PYTHON ?= python3
ENVIRONMENT := $(or $(AMPCOURSE_VENV),$(CURDIR)/.venv)
# nbgrader and Jupyter look for their own commands on PATH. The set-up itself must not see the .venv that it may replace.
IN_VENV := PATH="$(ENVIRONMENT)/bin:$$PATH"
# One process for each of two cores; tests/conftest.py says which tests stay together.
PYTEST := $(IN_VENV) python -m pytest -n 2 --dist loadgroup
# What also runs without TensorFlow has an environment of its own; AMPCOURSE_VENV_JAX names another.
IN_JAX := PATH="$(or $(AMPCOURSE_VENV_JAX),$(CURDIR)/.venv-jax)/bin:$$PATH" KERAS_BACKEND=jax
FIND_PYTHON := command -v "$(PYTHON)" > /dev/null || \
	{ echo "Set-up: there is no $(PYTHON): install Python 3.11, 3.12 or 3.13." >&2; exit 1; }
export TF_CPP_MIN_LOG_LEVEL ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup run lab test test-full test-jax format lint release bench bench-grade lock images clean

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from the lock (every other target does so first)
	@$(FIND_PYTHON)
	@"$(PYTHON)" tools/bootstrap.py

run: setup ## run every lesson on the CPU, print the results, write the report
	@$(IN_VENV) ampcourse run $(ARGS)

lab: setup ## open the lessons in JupyterLab, in the folder learner/
	@$(IN_VENV) ampcourse start learner
	@cd learner && $(IN_VENV) jupyter lab $(ARGS)

test: setup ## run the tests of every day
	@$(PYTEST) $(ARGS)

test-full: setup ## run all tests, also the long ones
	@$(PYTEST) --full $(ARGS)

test-jax: ## test on JAX what also runs there, in .venv-jax, which has no TensorFlow
	@$(FIND_PYTHON)
	@"$(PYTHON)" tools/bootstrap.py jax
	@$(IN_JAX) python -m pytest -n 2 --dist loadgroup $(or $(ARGS),tests/jax)

format: setup ## format the code and the notebooks
	@$(IN_VENV) ruff format .
	@$(IN_VENV) ruff check --fix .
	@$(IN_VENV) python tools/notebooks.py
	@$(IN_VENV) python tools/readme.py

lint: setup ## check the code and the notebooks, change nothing
	@$(IN_VENV) ruff format --check .
	@$(IN_VENV) ruff check .
	@$(IN_VENV) python tools/notebooks.py --check
	@$(IN_VENV) python tools/readme.py --check

release: setup ## make the learner's notebooks from the sources
	@$(IN_VENV) ampcourse release $(ARGS)

bench: setup ## run every benchmark but bench-grade
	@$(IN_VENV); export PATH; failed=0; for file in $(filter-out %/bench_grade.py,$(wildcard benchmarks/bench_*.py)); do \
		echo "== $$file"; python "$$file" || failed=1; done; exit $$failed

bench-grade: setup ## grade a class with plain nbgrader and with ampcourse, side by side (10 minutes)
	@$(IN_VENV) python benchmarks/bench_grade.py $(ARGS)

lock: setup ## write the locks anew (ARGS=--upgrade for newer versions)
	@$(IN_VENV) python tools/lock.py $(ARGS)

images: setup ## draw the pictures of the README
	@$(IN_VENV) python tools/make_images.py

clean: ## remove what was made here, but never learner/
	@rm -rf .venv .venv-jax build dist results .pytest_cache .ruff_cache .hypothesis
	@find ampcourse tests tools benchmarks -name __pycache__ -prune -exec rm -rf {} + 2> /dev/null || true
