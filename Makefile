# Commands of this repository; `make` alone prints the list. A fresh clone needs Python 3.11 or newer,
# a C++17 compiler and make: everything else, CMake and Ninja included, is installed into $(VENV).

VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# File that pins the release of torch; leave it out on a GPU node: `make setup CONSTRAINTS=`.
CONSTRAINTS ?= constraints.txt
# Arguments for the command behind a target: `make train ARGS="..."`, `make test ARGS="-k skyjo"`.
ARGS ?=
# Variant of the network: baseline, belief, belief_cards, ego_only, heads_only, ppo.
VARIANT ?= belief
# Options of CMakeLists.txt for the extension modules: `make clean setup CMAKE_ARGS=-DBELIEF_NATIVE=ON`.
CMAKE_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip

MODULE_SOURCES := $(shell find env mcts muzero native -name '*.h' -o -name '*.cpp')
CPP_FILES := $(shell find env mcts muzero native tests -name '*.h' -o -name '*.cpp')
SHELL_FILES := .ci/run $(wildcard slurm/*.sh slurm/*.sbatch tests/slurm/*.sh tests/arena/*.sh)

ifeq ($(CI),true)
override CMAKE_ARGS += -DBELIEF_WERROR=ON
endif
export CMAKE_ARGS
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup train report play arena test test-all bench bench-gpu lint format stubs asan fuzz fuzz-files lock sdist wheel docs clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Two stamps: one for the packages that pyproject.toml asks for, one for the project itself, whose extension
# modules are rebuilt when their sources change. The project is built with the tools in $(VENV), hence
# --no-build-isolation: a rebuild then downloads nothing and compiles only what has changed.
PACKAGES := $(VENV)/.packages-installed
INSTALLED := $(VENV)/.project-installed

define LIST_PACKAGES
import tomllib
with open("pyproject.toml", "rb") as file:
    config = tomllib.load(file)
build, project = config["build-system"], config["project"]
for group in build["requires"], project["dependencies"], project["optional-dependencies"]["dev"]:
    print(*group, sep="\n")
endef
export LIST_PACKAGES

$(PACKAGES): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python" \
		if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "$$LIST_PACKAGES" > $(VENV)/packages.txt
	$(PIP) install $(CONSTRAINTS:%=-c %) -r $(VENV)/packages.txt
	@touch $@

$(INSTALLED): $(PACKAGES) CMakeLists.txt $(MODULE_SOURCES)
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

setup: $(INSTALLED) ## create the virtual environment and build the extension modules

# Ctrl-C reaches make, its shell and the command. The shell waits for the command, and a run that has saved (75) or was
# stopped (130) is no error, so that make has nothing to add to what the command has said.
define INTERRUPTIBLE
@trap : INT; set -- $(1); echo "$$*"; "$$@"; code=$$?; [ $$code -eq 75 ] || [ $$code -eq 130 ] || exit $$code
endef

train: setup ## train an agent: make train VARIANT=baseline ARGS="seed=1"
	$(call INTERRUPTIBLE,$(BIN)/python -m muzero.train +variant=$(VARIANT) $(ARGS))

# The run to report on: by default the one that was trained last.
RUN ?= $(patsubst %/metrics.jsonl,%,$(firstword $(shell ls -t runs/*/metrics.jsonl 2>/dev/null)))

report: setup ## draw the curves of the last run, or of others: make report RUN="runs/a runs/b" ARGS="--smooth 50"
	@test -n "$(RUN)" || { echo "no run in runs/ yet: make train makes one, RUN=DIR names another" >&2; exit 2; }
	$(BIN)/python -m muzero.report $(RUN) $(ARGS)

play: setup ## play against a trained agent in this terminal: make play ARGS="game=skyjo you=1"
	@$(BIN)/python -m muzero.play $(ARGS)

arena: setup ## play against trained agents in a browser: make arena ARGS="port=8080"
	$(call INTERRUPTIBLE,$(BIN)/python -m muzero.arena $(ARGS))

# Three processes for two cores, because tests wait for servers and children, each with one thread: more threads would wait
# for each other. A file is run by one process, so that what its tests share (Ray actors, trained networks) is made once,
# in the order of tests/conftest.py.
TEST_PROCESSES ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); n=$$(((cores * 3 + 1) / 2)); echo $$((n > 8 ? 8 : n)))
test: setup ## run the fast tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(ARGS)

# Independent search (mctx) to compare ours with; jax is too large for everybody's environment.
MCTX := $(VENV)/.mctx-installed
$(MCTX): $(PACKAGES)
	$(PIP) install $(CONSTRAINTS:%=-c %) mctx jax jaxlib
	@touch $@

test-all: setup asan $(MCTX) ## run all tests, the slow and the native ones too
	$(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

bench: setup ## run every experiments/bench_*.py; results go to runs/bench/, with ARGS=--record to experiments/results/
	@set -e; for script in experiments/bench_*.py; do \
		echo "$$script"; \
		$(BIN)/python "$$script" --json "runs/bench/$$(basename "$$script" .py).json" $(ARGS); \
	done

bench-gpu: setup ## measure everything on a GPU; results go to runs/bench/, with ARGS=--record to experiments/results/
	$(BIN)/python experiments/gpu_first_look.py --json runs/bench/gpu_first_look.json $(ARGS)

lint: setup ## check style, types and the order of the packages: Python, C++ and shell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)
	$(BIN)/shellcheck -x $(SHELL_FILES)

format: setup ## rewrite Python and C++ files in the house style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

stubs: setup ## regenerate the type stubs of the extension modules
	for package in $(patsubst %/bindings.cpp,%,$(wildcard */bindings.cpp muzero/model/native/bindings.cpp)); do \
		$(BIN)/python -m nanobind.stubgen -q -D -m $$(echo $$package | tr / .)._native -o $$package/_native.pyi; \
	done

lock: setup ## write the versions of all installed packages to requirements.lock
	$(BIN)/python .ci/lock.py > requirements.lock

sdist: setup ## build a source distribution in dist/
	$(BIN)/python -c 'from scikit_build_core.build import build_sdist; print("dist/" + build_sdist("dist"))'

# For any x86-64 processor; better ones get their kernels at run time. CI repairs wheels to manylinux (cibuildwheel).
wheel: setup ## build a wheel in dist/ that needs no AVX2
	$(PIP) wheel --no-build-isolation --no-deps -w dist -Ccmake.define.BELIEF_BASELINE=ON -Cbuild-dir=build/baseline .

docs: setup ## build the documents as a site in build/site: make docs ARGS=serve
	$(PIP) install -q $(CONSTRAINTS:%=-c %) mkdocs-material
	$(BIN)/mkdocs $(or $(ARGS),build --strict)

asan: $(PACKAGES) ## run the native tests under the address and undefined-behaviour sanitizers
	$(BIN)/cmake -S . -B build/asan -G Ninja -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN)/ninja)" \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DBELIEF_NATIVE_TESTS=ON -DBELIEF_SANITIZE=ON -DBELIEF_WERROR=ON
	$(BIN)/cmake --build build/asan
	$(BIN)/ctest --test-dir build/asan --output-on-failure --no-tests=error

fuzz: asan ## ten million fuzz inputs under the sanitizers (half an hour)
	build/asan/fuzz_env 10000
	build/asan/fuzz_mcts 300
	build/asan/fuzz_slot_step 20000
	build/asan/fuzz_slot_trainer 5000

fuzz-files: setup ## ten thousand mutated files through every command that reads files (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(ARGS)

clean: ## remove what was built; the virtual environment and your runs stay
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis $(INSTALLED)
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
