# Every target makes its own virtual environment; Python 3.11 or newer and make are all that is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out
LOWEST := $(OUT)/lowest

.PHONY: help demo test test-all lint bench bench-recovery bench-first bench-forecasts bench-long bench-scale bench-uci sbc torture lowest clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/installed  ## recover the frequency of a chirp: figure, model and numbers into $(OUT)/demo, offline
	$(BIN)/spectrogp demo --out $(OUT)/demo

test: $(VENV)/installed-dev  ## run the tests, but for those that take long
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(VENV)/installed-dev  ## run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/installed-dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-bench  ## time the kernels and spectrograms
	$(BIN)/python -m benchmarks --out $(OUT)/bench

bench-recovery: $(VENV)/installed-bench  ## how well frequencies are recovered, against signal-processing tools (an hour)
	$(BIN)/python -m benchmarks.recovery --out $(OUT)/recovery

bench-first: $(VENV)/installed-bench  ## what scientists try first, by the default call (SPECTROGP_DATA names the data)
	$(BIN)/python -m benchmarks.first --out $(OUT)/first

bench-forecasts: $(VENV)/installed-bench  ## forecasts of 52 real series by the default call, beside autoregression
	$(BIN)/python -m benchmarks.forecasts --out $(OUT)/forecasts

bench-long: $(VENV)/installed-bench  ## long signals by the default call, to a million samples (SPECTROGP_DATA names the data)
	$(BIN)/python -m benchmarks.long --out $(OUT)/long

bench-scale: $(VENV)/installed-dev  ## many signals, one fit by two processes with kills, ten million rows on disk (an hour)
	$(BIN)/python -m benchmarks.scale --out $(OUT)/scale
	$(BIN)/python -m benchmarks.threads --peers --out $(OUT)/threads
	$(BIN)/python -m benchmarks.large --out $(OUT)/large

bench-uci: $(VENV)/installed-bench  ## tables of several inputs by the default call, against boosting (SPECTROGP_DATA names the data)
	$(BIN)/python -m benchmarks.uci --out $(OUT)/uci

sbc: $(VENV)/installed  ## check by simulation that the sampler is calibrated (half an hour on one core)
	$(BIN)/python -m benchmarks.calibration --seed 2 --out $(OUT)/sbc

torture: $(VENV)/installed-dev  ## kill, damage and fill up everything, and write docs/reliability.md (half an hour)
	$(BIN)/python -m benchmarks.torture

lowest: PYTHON = python3.11
lowest: $(LOWEST)/installed-lowest  ## try everything with the lowest versions of dependencies (PYTHON is python3.11)
	$(LOWEST)/bin/python -m benchmarks.smoke

clean:  ## remove the virtual environment and everything made
	rm -rf $(VENV) $(OUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "spectrogp needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true); try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "spectrogp needs Python's venv module, which '$(PYTHON)' lacks; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# Made anew whenever the bounds may have changed: what is installed and allowed would stay, lowest or not.
$(LOWEST)/installed-lowest: pyproject.toml
	rm -rf $(LOWEST)
	@$(MAKE) --no-print-directory VENV=$(LOWEST) PYTHON=$(PYTHON) $(LOWEST)/created
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[arviz,dask,data,pandas]'
	@touch $@
