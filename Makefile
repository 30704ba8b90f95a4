# Two commands matter: `make demo` and `make test`; `make test-all` takes the slow tests, too. All
# of them make their own environment in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST_ARGS ?=
# One thread a worker: two workers fill two cores. The tests of a file or class go to one of them,
# so that what they share is made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope --check-tiers

.PHONY: demo test test-fast test-slow test-all test-cluster test-integrations package lint types size coverage mutants docs docs-version notebooks leaderboard figures bench validate fuzz lock sbom clean

# torch first and alone: its pinned version decides which build the rest finds already there.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt torch
	$(PIP) install --quiet --constraint constraints.txt --editable '.[full,models,judge,serve]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed benchmarks/papers/pyproject.toml
	$(PIP) install --quiet --constraint constraints.txt --editable '.[full,models,judge,serve,integrations,dev,docs]'
	$(PIP) install --quiet --no-deps --editable benchmarks/papers
# Its file of axe-core is read by tests of pages; Playwright, which it would drive, is not needed.
	$(PIP) install --quiet --no-deps --constraint constraints.txt axe-playwright-python
	touch $@

demo: $(VENV)/.installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# Lines of code, modules, imports and import cycles of the package; tests/test_size.py holds them.
size: $(VENV)/.installed
	$(BIN)/python benchmarks/size.py

# The fast tier: what takes less than a quarter of a second of processor time (tests/tiers.py).
# Types are checked beside them: two cores are then busy to the end.
test: lint
	$(MAKE) --no-print-directory --jobs=2 types test-fast

test-fast: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

# The second tier: the tests that tests/slow_tests.txt lists, and nothing of the first.
test-slow: $(VENV)/.installed-dev
	$(PYTEST) -m slow $(PYTEST_ARGS)

# Everything, one tier after the other.
test-all: test
	$(MAKE) test-slow

# A Ray cluster of two nodes on this machine, of which actors, nodes and drivers die.
test-cluster: export CALIBRAIL_CLUSTER = 1
test-cluster: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/engine/test_ray_faults.py $(PYTEST_ARGS)

# Adapters to frameworks that install beside everything else, then those that need an environment of
# their own, one after another; INTEGRATIONS=nemo takes one of them.
test-integrations: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/integrations
	$(BIN)/python -m tests.integrations $(INTEGRATIONS)

# Branches of the core that the tests of the core and of the commands take.
coverage: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q --cov --cov-report=term \
	  tests/conformal tests/evaluation tests/guardrail tests/pipelines tests/cli $(PYTEST_ARGS)

# A seeded sample of small changes to the core; MUTANTS_ARGS=--all takes every one, and hours.
mutants: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py $(MUTANTS_ARGS)

# dist/, built and checked, and tried in an environment of its own; TAG=v0.1.0 must be the version.
package: $(VENV)/.installed-dev
	$(BIN)/python -m tests.package $(if $(TAG),--tag "$(TAG)")

# Material announces the end of MkDocs 1 with every build; no reader of these pages can act on it.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict

# Adds this version of the pages to the branch gh-pages, beside the others, as the latest one.
# PUSH=--push sends it to where the site is served.
docs-version: export NO_MKDOCS_2_WARNING = 1
# mike calls mkdocs by its name.
docs-version: export PATH := $(CURDIR)/$(BIN):$(PATH)
docs-version: $(VENV)/.installed-dev
	$(BIN)/mike deploy --update-aliases $(PUSH) \
	  "$$($(BIN)/python -c 'from importlib.metadata import version; print(version("calibrail"))')" latest
	$(BIN)/mike set-default $(PUSH) latest

# Outputs of docs/notebooks, written again.
notebooks: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.notebooks

# docs/leaderboard, from the data at CALIBRAIL_DATA. Comparisons are kept under runs/leaderboard.
# One thread: more of them round the last digits of a score otherwise.
leaderboard: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/leaderboard_page.py

# The figures of the docs and the results that their prose quotes, from the data at CALIBRAIL_DATA.
# `make leaderboard` first: it keeps the comparisons that how_far.py reads. Pages need chromium.
# Two papers' repositories lie there, too (docs/papers.md); benchmarks/public_sets.py makes the rest
# of clones. The entailment scores of trimming take long once, and are kept under runs/trimming.
figures: $(VENV)/.installed-dev
	for name in guarantee verdicts worked_example trimming trimming_pays how_far default_detector \
	  papers/drift page_pictures papers/conformal_factuality; do \
	  PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/run_all.py

# Pages that malloc gives back and asks for again are cleared: 30 % of the time of some simulations.
IN_MEMORY := OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=67108864
validate: $(VENV)/.installed-dev
	$(IN_MEMORY) $(BIN)/python -m benchmarks.validity
	$(IN_MEMORY) $(BIN)/python -m benchmarks.validity.from_files
	$(IN_MEMORY) $(BIN)/python -m benchmarks.validity.attacks
	$(IN_MEMORY) $(BIN)/python benchmarks/intervals.py

# Examples of properties that no other run tries, then damaged files of every format for
# FUZZ_MINUTES; a case that fails is run again by its seed.
FUZZ_MINUTES ?= 10
fuzz: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -q -m hypothesis --hypothesis-profile=searching
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(FUZZ_MINUTES)

# What the service's image is built with and installs, by hash: the service, and each extra with it.
# Of models torch is left out, whose build without CUDA has an index of its own, and so is CUDA:
# requirements-torch.txt has it by the hashes of that index for x86-64 and ARM.
# Needs uv.
LOCKS = examples/production/requirements
COMPILE = uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 \
  --python-platform x86_64-manylinux_2_28 --constraint constraints.txt
lock:
	echo hatchling | $(COMPILE) - -o $(LOCKS)-build.txt
	$(COMPILE) --extra serve --extra signing pyproject.toml -o $(LOCKS).txt
	for extra in judge learning models probability; do \
	  $(COMPILE) --extra serve --extra signing --extra $$extra --no-emit-package torch pyproject.toml \
	  | awk '/^[a-z]/ {ours = !/^(cuda|nvidia|triton)/} ours' > $(LOCKS)-$$extra.txt || exit 1; done

# The bills of materials of these (CycloneDX), by a tool that has an environment of its own.
sbom:
	$(PYTHON) -m venv .venv-sbom
	.venv-sbom/bin/python -m pip --disable-pip-version-check install --quiet cyclonedx-bom==7.5.0
	mkdir -p sbom
	for lock in $(LOCKS)*.txt; do \
	  .venv-sbom/bin/cyclonedx-py requirements $$lock -o sbom/$$(basename $$lock .txt).json || exit 1; done

clean:
	rm -rf $(VENV) .venv-integrations .venv-sbom site dist sbom runs mutants .coverage .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
