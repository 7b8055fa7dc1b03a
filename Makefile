# Needs Python 3.11 or later, git and make (GNU make 3.81 or later). `make` alone lists what it does.

.DEFAULT_GOAL := help
.PHONY: help quickstart docs test test-full test-versions check emulators format clean FORCE

VENV ?= .venv
PYTHON ?=
PIP_FLAGS ?=
# Files stay whole: what a file fits or compiles is not made by both processes.
PYTEST_FLAGS ?= -n 2 --dist loadfile
# Plain torch brings gigabytes of CUDA on Linux; its CPU build does all that is done here.
# Empty: the torch of the usual index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# Hundreds of processes that the tests start would each compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
INSTALL := $(BIN)/python .ci/install.py $(PIP_FLAGS) -c constraints.txt
# The same module from two projects: macOS has no wheel of xgboost-cpu.
XGBOOST := "xgboost-cpu; sys_platform != 'darwin'" "xgboost; sys_platform == 'darwin'"
PYTEST := $(BIN)/pytest $(PYTEST_FLAGS) --doctest-modules tests bitvec

help:
	@echo 'make quickstart   convert, certify, retrain, harden and export a model: takes a few minutes'
	@echo 'make docs         the documentation as a site, in build/docs'
	@echo 'make test         the tests, the doctests and the snippets of the docs'
	@echo 'make test-full    the same and the long tests'
	@echo 'make test-versions  other versions of the libraries and of Python, and a fresh Debian: takes hours'
	@echo 'make check        format, lint, types, the direction of imports, and shapes of arrays'
	@echo 'make emulators    compilers and emulators of ARM, from Debian, that some tests of C use'
	@echo 'make format       format and sort imports in place'
	@echo 'make clean        remove the environment and what the tools left behind'
	@echo
	@echo 'Each installs what it needs into $(VENV) first. Variables: PYTHON=python3.12 (which Python),'
	@echo 'VENV=dir (where), TORCH_INDEX= (the usual torch, with CUDA), PYTEST_FLAGS, PIP_FLAGS.'

quickstart: $(VENV)/.runs
	@$(BIN)/bitvec quickstart

# A warning is an error: a link that leads nowhere, a page that no list names, a broken docstring.
docs: $(VENV)/.documents
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo 'Built: open build/docs/index.html'

test: $(VENV)/.develops
	$(PYTEST)

test-full: $(VENV)/.develops $(VENV)/.documents
	BITVEC_SHAPES=1 BITVEC_HYPOTHESIS=long $(PYTEST) -m 'full or not full'

test-versions: $(VENV)/.develops
	@status=0; for script in versions/run versions/suites runtimes/compare runtimes/float16 systems/run systems/tutorials; do \
	  $(BIN)/python tests/$$script.py || status=1; \
	done; exit $$status

# Shape annotations are checked on the core's own tests, and on all of them in the long run.
SHAPED := tests/core tests/converters/test_native.py

check: $(VENV)/.develops
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	BITVEC_SHAPES=1 $(BIN)/pytest -q -n 2 --dist loadfile $(SHAPED)

# Debian's packages, of which some machines have none: the tests that need them are skipped there.
EMULATORS := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
  gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm

emulators:
	@if command -v qemu-aarch64 qemu-system-arm arm-none-eabi-gcc >/dev/null; then exit 0; fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	  apt-get install -y -qq --no-install-recommends $(EMULATORS) >/dev/null

format: $(VENV)/.develops
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	@if [ -e '$(VENV)/.made-for' ]; then $(REMOVE); fi
	rm -rf build dist docs/api docs/notebooks htmlcov *.egg-info .coverage .coverage.* \
	  .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find bitvec tests benchmarks docs examples -name __pycache__ -prune \
	  -exec rm -rf {} + 2>/dev/null || true

# ---- the environment ----------------------------------------------------------------------------
# .made-for is written first and says that the folder is ours to remove, and for which checkout and
# PYTHON it was made. .runs, .develops and .documents are written last, so that a half-made environment is
# made again, as is one whose checkout moved or for which another PYTHON is asked. They go the other way
# round, so that the same holds when a removal is interrupted.

REMOVE = rm -f '$(VENV)/.runs' '$(VENV)/.develops' '$(VENV)/.documents' && \
  find '$(VENV)' -mindepth 1 -maxdepth 1 ! -name .made-for -exec rm -rf {} + && rm -rf '$(VENV)'

ifneq ($(shell sed -n 1p '$(VENV)/.made-for' 2>/dev/null),$(CURDIR))
stale := FORCE
endif
ifneq ($(PYTHON),)
ifneq ($(shell sed -n 2p '$(VENV)/.made-for' 2>/dev/null),$(PYTHON))
stale := FORCE
endif
endif

FORCE:

# Of several Pythons the first one for which every extra has wheels is taken.
PYTHONS := python3.13 python3.12 python3.11 python3.14 python3.15
WHEELS_UP_TO := (3, 13)

$(VENV)/.runs: pyproject.toml constraints.txt $(stale)
	@set -eu; \
	if [ -e '$(VENV)' ] && [ ! -e '$(VENV)/.made-for' ]; then \
	  echo '$(VENV) was not made by this Makefile: move it away, or choose another folder with VENV=...' >&2; exit 1; \
	fi; \
	if [ -n '$(PYTHON)' ]; then set -- '$(PYTHON)'; else set -- python3 $(PYTHONS) python; fi; \
	found=; without_pip=; \
	for newest in '$(WHEELS_UP_TO)' '(99,)'; do for python; do \
	  version=$$("$$python" -c "import sys; v = sys.version_info[:2]; print('%d.%d' % v); sys.exit(not (3, 11) <= v <= $$newest)" 2>/dev/null) || continue; \
	  if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then found=$$python; break 2; fi; \
	  without_pip=$${without_pip:-$$version}; \
	done; done; \
	if [ -z "$$found" ] && [ -n "$$without_pip" ]; then \
	  echo "Python $$without_pip cannot make virtual environments here because its ensurepip is missing: run \`sudo apt install python$$without_pip-venv\`, then make again." >&2; exit 1; \
	elif [ -z "$$found" ]; then \
	  echo "Python 3.11 or later is needed and none was found as $$(echo "$$*" | sed 's/ /, /g'): install one, or point to it with PYTHON=/path/to/python3." >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with Python $$version; this happens once and takes a few minutes."; \
	if [ "$$newest" = '(99,)' ]; then \
	  echo "Optional libraries without a wheel for Python $$version are left out, as the markers in pyproject.toml say."; \
	fi; \
	if [ -e '$(VENV)' ]; then $(REMOVE); fi; \
	mkdir -p '$(VENV)'; \
	printf '%s\n' '$(CURDIR)' '$(PYTHON)' > '$(VENV)/.made-for'; \
	"$$found" -m venv '$(VENV)'
	@echo 'Installing torch ...'
	@$(INSTALL) --no-deps $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX) --retries 1 --timeout 30) torch
	@if [ -n '$(TORCH_INDEX)' ] && grep -qs "^cuda.*= '" '$(VENV)'/lib/python*/site-packages/torch/version.py; then \
	  echo 'The index of the CPU build of torch did not answer: this build brings 2 GB of CUDA.'; \
	fi
	@echo 'Installing bitvec and what the quickstart needs ...'
	@$(INSTALL) -e '.[torch,onnx,sklearn,plot]' $(XGBOOST)
	@touch $@

$(VENV)/.documents: $(VENV)/.runs
	@echo 'Installing what builds the site ...'
	@$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.develops: $(VENV)/.runs
	@echo 'Installing what the tests and checks need ...'
	@$(INSTALL) -e '.[dev]'
	@touch $@
