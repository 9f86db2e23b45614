# `make run` and `make test` are all a user needs: each sets up everything first. `make help` lists the rest.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.SUFFIXES:

VENV ?= .venv
OUT ?= build
IMAGE ?= dpwgan
SLIM := python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1
PY := $(VENV)/bin/python
EXAMPLE := examples/rand-hie
# What bench-utility measures, and where: TABLES holds one folder a table. RESUME=FILE goes on where a run was broken off.
TABLES ?= ../shared/bench
METHODS ?=
EPSILONS ?=
SEEDS ?= 3
ONLY ?=
JOBS ?= 1
RESUME ?=
BENCH_FLAGS ?=
MINUTES ?= 60
# Where bench stores its figures, and the table that it starts --check on. BENCH_PEERS: see benchmarks/job.py.
RESULTS ?= $(OUT)/bench.json
QUICK ?=
ADULT ?= ../shared/bench/adult
# What bench-evaluate measures: folders of real tables, and rows of a stand-in for the 1940 census (0 for none).
DATA ?= ../shared/data/adult ../shared/data/ipums-microdata
ROWS ?= 661968

export PYTHON
unexport PYTHONHOME PYTHONPATH

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: venv ## Sets up everything, makes a synthetic copy of the bundled example and shows its privacy claim
	@mkdir -p $(OUT)
	$(PY) run.py $(EXAMPLE)/data.csv $(OUT)/output.csv $(EXAMPLE)/data-specs.json 1.0 --claim -
	@echo "The synthetic table is $(OUT)/output.csv, its claim $(OUT)/output.csv.privacy.json."

.PHONY: test
test: venv-dev ## Sets up everything and runs the tests, all but those that need a container engine or a browser
	@echo "Deselected here: the container tests, which need root and a container engine (make container-test), and the"
	@echo "browser tests, which need Debian's chromium (make browser-test)."
	$(PY) -m pytest -n auto --dist worksteal -m "not container and not browser"

.PHONY: check
check: lint ## Format, lint, types, import law and the fast tests
	$(PY) -m pytest -n auto --dist worksteal -m "not container and not browser and not slow and not statistical"

.PHONY: lint lint-format lint-code lint-types lint-imports lint-dockerfile
lint: lint-format lint-code lint-types lint-imports lint-dockerfile ## Format, lint, types, import law and the Dockerfile, changing nothing
lint-format: venv-dev
	$(PY) -m ruff format --check --output-format concise .
lint-code: venv-dev
	$(PY) -m ruff check .
lint-types: venv-dev
	$(PY) -m mypy
lint-imports: venv-dev
	$(VENV)/bin/lint-imports --no-logo
lint-dockerfile: venv-dev
	$(VENV)/bin/hadolint Dockerfile

.PHONY: format
format: venv-dev ## Formats the code and mends what can be mended by itself
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

.PHONY: mutants
mutants: venv-dev ## Breaks privacy-critical lines one at a time: a fast test must notice each
	$(PY) -m tests.mutants

.PHONY: fuzz
fuzz: venv-dev ## Gives every reader changed inputs for MINUTES, other ones each time: documented answers, or it fails
	$(PY) -m tests.fuzz --minutes $(MINUTES)

.PHONY: image image-cpu
image: ## Builds the container image with the engine of this machine
	docker build --build-arg REVISION="$$(git rev-parse HEAD)" --build-arg CREATED="$$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
		$(IMAGE_FLAGS) --tag $(IMAGE) .

image-cpu: IMAGE_FLAGS = --build-arg BASE_IMAGE=$(SLIM) --build-arg TENSORFLOW=tensorflow-cpu
image-cpu: image ## Builds it on a slim base, without what serves GPUs alone

.PHONY: container-test
container-test: venv-dev ## Builds the image on a stand-in base and runs the example in it, hardened; needs root on Debian
	$(PY) -m pytest -m container tests/container

.PHONY: browser-test
browser-test: venv-dev ## Opens the evaluation's report in headless Chromium; needs Debian's package chromium
	$(PY) -m pytest -m browser tests/evaluate/report

.PHONY: bench bench-compare
bench: venv ## Takes all figures of speed and stores them in RESULTS; QUICK=1 takes some minutes and says little
	$(PY) benchmarks/bench.py --output "$(RESULTS)" $(if $(QUICK),--quick) --table "$(ADULT)"

bench-compare: venv ## Puts two files of results side by side: make bench-compare A.json B.json
	@$(PY) benchmarks/figures.py $(or $(A),$(word 2,$(MAKECMDGOALS))) $(or $(B),$(word 3,$(MAKECMDGOALS)))

.PHONY: bench-utility
# Peers that are set up take part. BENCH_PEERS may name others, such as a checkout of dpsynth: see benchmarks/processes.py.
PEERS := dpmm-mst dpmm-aim dpmm-mst-privtree dpmm-aim-privtree mbi-mst mbi-aim
peer_python = $(wildcard $(OUT)/peers/$(firstword $(subst -, ,$(1)))/bin/python)
bench-utility: export BENCH_PEERS ?= $(foreach tool,$(PEERS),$(if $(call peer_python,$(tool)),$(tool)=$(call peer_python,$(tool)) benchmarks/peer.py $(tool) {data} {output} {specs} {epsilon};))
bench-utility: venv ## Prints how good the tables are: method by table by epsilon, beside the peers' figures
	$(PY) benchmarks/utility.py --tables "$(TABLES)" $(if $(ONLY),--only $(ONLY)) $(if $(METHODS),--methods $(METHODS)) \
		$(if $(EPSILONS),--epsilons $(EPSILONS)) --seeds "$(SEEDS)" --jobs "$(JOBS)" \
		$(if $(RESUME),--resume "$(RESUME)") $(BENCH_FLAGS)

.PHONY: bench-slices
bench-slices: venv-evaluation ## Cuts TABLES into fewer rows, fewer columns and yes/no flags: make bench-utility TABLES=build/slices
	$(PY) benchmarks/slices.py "$(TABLES)" $(OUT)/slices $(if $(ONLY),--only $(ONLY))

.PHONY: peers
peers: ## Sets up dpmm and mbi for bench-utility, and SDNist for benchmarks/sdnist_scores.py, each in its own environment
	for name in dpmm mbi sdnist; do \
		python=$(OUT)/peers/$$name/bin/python; \
		test -x $$python || "$$(sh scripts/find-python.sh)" -m venv $(OUT)/peers/$$name || exit; \
		$$python -m pip install --quiet --requirement benchmarks/peers/$$name.txt || exit; \
	done

.PHONY: bench-evaluate
bench-evaluate: venv-dev ## Prints time and peak memory of full evaluations: DATA's tables and ROWS made-up rows of 98 columns
	$(PY) benchmarks/evaluate.py --tables $(DATA) --standin $(ROWS)

.PHONY: lock
lock: ## Writes requirements.txt and those beside it anew from pyproject.toml
	@mkdir -p $(OUT)
	test -x $(OUT)/lock/bin/python || "$$(sh scripts/find-python.sh)" -m venv $(OUT)/lock
	$(OUT)/lock/bin/python -m pip install --quiet uv
	$(OUT)/lock/bin/python scripts/lock_requirements.py

.PHONY: venv
venv:
	@sh scripts/setup-venv.sh run $(VENV)

.PHONY: venv-evaluation
venv-evaluation: ## Sets up what python -m dpwgan.evaluate and dpwgan.audit need
	@sh scripts/setup-venv.sh evaluation $(VENV)

.PHONY: venv-dev
venv-dev:
	@sh scripts/setup-venv.sh dev $(VENV)

.PHONY: clean
clean: ## Removes what was made here: outputs, caches, the virtual environment
	rm -rf $(OUT) $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
