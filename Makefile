# Two commands on a fresh machine: make demo, make test. TORCH names a torch requirement to test with.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?=
WORKERS ?= 2
comma := ,

.PHONY: demo test test-gpu bench format clean

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet -e ".[demo]"
	touch $@

EXTRAS := demo,pose,hdf5,onnx,postgres,cluster,serve,dev
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet -e ".[$(EXTRAS)$(if $(TORCH),$(comma)learned)]" $(if $(TORCH),"$(TORCH)")
	touch $(VENV)/.demo $@

demo: $(VENV)/.demo
	$(BIN)/tiepoint demo

test: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench
	$(BIN)/ruff check src tests bench
	$(BIN)/mypy
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

# The tests of the kernels on a card as well; DEVICES names it. TORCH must be a build for it.
DEVICES ?= cuda
test-gpu: $(VENV)/.dev
	TIEPOINT_TEST_DEVICES="$(DEVICES)" $(BIN)/python -m pytest -n 0 -q tests/kernels

bench: $(VENV)/.dev
	$(BIN)/python -m bench

format: $(VENV)/.dev
	$(BIN)/ruff format src tests bench
	$(BIN)/ruff check --fix src tests bench

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
