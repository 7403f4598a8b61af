# Two commands on a fresh machine: `make demo` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NATIVE := $(VENV)/.native
SANITIZED := build/sanitized

.DEFAULT_GOAL := help
.PHONY: help quick setup native sanitize fuzz fuzz-inputs fuzz-programs fuzz-guided chaos chaos-racks fuzz-portable wheel packages lock release test-deploy try-wheel try-fleet $(SANITIZED) demo docs test test-all test-nightly test-numpy test-spark lint types imports check sim seeds soak-sim explore bench-small guard bench-venvs bench-peers wide-sim wide-bench wide-real page-vendor screenshots clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(NATIVE) ## a virtual environment with everything in it

$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "elfmesh needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "Setting up $(VENV) (about a minute, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	@touch $@

$(NATIVE): $(STAMP) $(wildcard elfmesh/cbt/kernel/csrc/*.[ch] elfmesh/ingest/parsers/csrc/*.[ch])
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

native: $(STAMP) ## build the C modules in place again, with what the compiler says
	@$(BIN)/python setup.py build_ext --inplace
	@touch $(NATIVE)

demo: $(NATIVE) ## run the main job: 8 agents, live top-10, one killed, checked, a Spark DataFrame
	@$(BIN)/elf demo

docs: $(NATIVE) ## the documentation site in build/docs/html; a warning or a broken link is an error
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html -c docs -d build/docs/doctrees . build/docs/html
	@echo "build/docs/html/README.html"

# Files of tests side by side: two processes more than there are cores, because many tests wait for agents; at most 4.
PARALLEL ?= -n $(shell $(PYTHON) -c "import os; print(min(4, (os.cpu_count() or 1) + 2))")

# Each of some hundred processes, and each collection of tests, would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

test: $(NATIVE) ## every check, the long ones in their short version (22 minutes)
	@$(BIN)/python -m pytest -q $(PARALLEL) -m "not exhaustive"

quick: $(NATIVE) ## what a contributor runs before each commit: style, types, imports, units, three simulated fleets
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint types imports
	@ELF_SIM_SEEDS=3 $(BIN)/python -m pytest -q $(PARALLEL) -m "not exhaustive and not spark and not slow" \
		tests/test_tidy.py tests/test_mirror.py tests/test_errors.py tests/test_ids.py tests/test_units.py tests/test_wire.py tests/test_text.py \
		tests/overlay tests/srt tests/cbt/tree tests/control tests/ql/text tests/ql/engine tests/sim/test_swarm_seeds.py::test_a_seed_holds_every_invariant

test-all: $(NATIVE) ## what `make test` leaves out: the long version of each check that has one (26 minutes)
	@ELF_SPARK_TESTS=all $(BIN)/python -m pytest -q $(PARALLEL) -m "(exhaustive or hypothesis) and not nightly" \
		--hypothesis-profile exhaustive

test-nightly: $(NATIVE) ## what `make test-all` runs a part of: all golden queries on Spark, benchmarks, 16 times the fuzzing (hours)
	@ELF_SPARK_TESTS=all $(BIN)/python -m pytest -q $(PARALLEL) -m nightly

test-numpy: $(NATIVE) ## the tests of the buffer tree without its native kernel
	@ELF_KERNEL=numpy $(BIN)/python -m pytest -q $(PARALLEL) tests/cbt

SPARK_ONLY := env ELF_SPARK_TESTS=all $(BIN)/python -m pytest -q

test-spark: $(NATIVE) ## every query of the reference and of the peers' cases on Spark and on 4 agents too (20 minutes)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark-connect]' \
		-r examples/spark/requirements.txt
	@rm -rf build/engines
	@$(SPARK_ONLY) $(PARALLEL) -m spark tests
	@$(SPARK_ONLY) -m "not spark" tests/spark_bridge/history tests/e2e/jobs/test_peers_on_agents.py
	@$(BIN)/python -m tests.spark_bridge.history.page

SANITIZE := env LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc PYTHONPATH=$(SANITIZED)/lib:. ELF_KERNEL=native
FUZZ_SECONDS ?= 600

$(SANITIZED): $(NATIVE)
	@rm -rf $(SANITIZED)
	@ELFMESH_REQUIRE_NATIVE=1 ELFMESH_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -Werror -O1 -g $(PORTABLE)" \
		$(BIN)/python setup.py --quiet build --build-base $(SANITIZED) --build-lib $(SANITIZED)/lib

sanitize: $(SANITIZED) ## the tests of the C modules under ASan and UBSan, then 20 s of fuzzing
	@$(SANITIZE) $(BIN)/python -m pytest -q -p no:cacheprovider -o pythonpath="$(SANITIZED)/lib ." \
		tests/cbt/kernel tests/ingest/parsers/scanner
	@$(SANITIZE) $(BIN)/python -P -m tests.cbt.kernel.fuzz 20
	@$(SANITIZE) $(BIN)/python -P -m tests.ingest.parsers.fuzz_scan 20
	@$(MAKE) --no-print-directory SANITIZED=build/portable PORTABLE=-DELFMESH_PORTABLE fuzz-portable

fuzz-portable: $(SANITIZED) # the scanner as machines without SSE2 have it
	@$(SANITIZE) $(BIN)/python -P -m tests.ingest.parsers.fuzz_scan 20

fuzz: $(SANITIZED) ## random and broken input for the sanitized C modules, FUZZ_SECONDS for each
	@$(SANITIZE) $(BIN)/python -P -m tests.cbt.kernel.fuzz $(FUZZ_SECONDS) $$(date +%s)
	@$(SANITIZE) $(BIN)/python -P -m tests.ingest.parsers.fuzz_scan $(FUZZ_SECONDS) $$(date +%s)

FUZZ_INPUTS ?= 100000000
FUZZ_HARNESS ?= messages-control

fuzz-inputs: $(NATIVE) ## every harness of tests/fuzz, FUZZ_INPUTS each (days); goes on where it was ended
	@$(BIN)/python -m tests.fuzz.rounds build/fuzz --inputs $(FUZZ_INPUTS) --docs

fuzz-guided: $(NATIVE) ## one harness (FUZZ_HARNESS) by atheris, which follows coverage, for FUZZ_SECONDS
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@$(BIN)/python -m tests.fuzz.guided $(FUZZ_HARNESS) $(FUZZ_SECONDS) build/fuzz/corpus-$(FUZZ_HARNESS)

CHAOS_KILLS ?= 1000
CHAOS_PAUSES ?= 200
CHAOS_AT_ONCE ?= 2
CHAOS_RACKS ?= 100

chaos: $(NATIVE) ## real agents killed CHAOS_KILLS times, then CHAOS_RACKS racks, and verified (long); goes on where it was ended
	@$(BIN)/python -m tests.chaos build/chaos --kills $(CHAOS_KILLS) --pauses $(CHAOS_PAUSES) \
		--at-once $(CHAOS_AT_ONCE) --docs
	@$(MAKE) --no-print-directory chaos-racks

chaos-racks: $(NATIVE) ## racks of real agents killed at once, CHAOS_RACKS times, and verified (40 minutes)
	@$(BIN)/python -m tests.chaos build/chaos-racks --rack-kills $(CHAOS_RACKS)

TOOLS := build/tools
# The time of the last commit: the same sources give the same files.
wheel packages release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

$(TOOLS)/.installed: deploy/release/tools.lock
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r $<
	@touch $@

wheel: $(STAMP) $(TOOLS)/.installed ## the source distribution and the wheel of this platform, in dist/
	@rm -rf build/wheel dist && mkdir -p dist
	@$(BIN)/python deploy/release/man_pages.py deploy/man
	@$(TOOLS)/bin/python setup.py --quiet sdist --dist-dir dist
	@$(TOOLS)/bin/python deploy/release/release.py sdist dist/*.tar.gz
	@umask 022; ELFMESH_REQUIRE_NATIVE=1 ELFMESH_CFLAGS=-g0 $(TOOLS)/bin/python -m pip --disable-pip-version-check wheel --quiet \
		--no-deps --no-build-isolation --wheel-dir build/wheel dist/*.tar.gz
	@if [ "$$(uname)" = Linux ]; then \
		umask 022; PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" auditwheel repair --wheel-dir dist build/wheel/*.whl; \
	else cp build/wheel/*.whl dist; fi
	@ls dist

FORMATS ?= deb,rpm

packages: wheel ## the deb and the rpm of that wheel, in dist/ (FORMATS=deb for one of them)
	@$(BIN)/python deploy/packages/build.py --wheel dist/*.whl --out dist --formats $(FORMATS)

LOCK_EXTRAS := signing,prometheus,sketches,uvloop,blazes,shell
comma := ,

lock: $(TOOLS)/.installed ## the newest versions that pyproject.toml allows, by hash, into deploy/release/*.lock
	@cd deploy/release && for name in requirements tools; do $(CURDIR)/$(TOOLS)/bin/uv pip compile --quiet --upgrade \
		--universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url -o $$name.lock \
		$$([ $$name = tools ] && echo tools.in || echo ../../pyproject.toml $(foreach extra,$(subst $(comma), ,$(LOCK_EXTRAS)),--extra $(extra))) \
		|| exit 1; done

release: ## wheel, sdist, packages, SBOM, lock and checksums in dist/, signed by the private SSH key at KEY=path
	@$(PYTHON) deploy/release/release.py check --key "$(KEY)"
	@$(PYTHON) deploy/packages/build.py --check --formats $(FORMATS)
	@$(MAKE) --no-print-directory packages
	@$(PYTHON) deploy/release/release.py finish --key "$(KEY)" --out dist --tools $(TOOLS)/bin

test-deploy: packages ## deploy/ with its tools: image, compose, chart, and the deb under a real systemd (root, minutes)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[deploy]'
	@ELF_TEST_DEPLOY=$(CURDIR)/dist $(BIN)/python -m pytest -q tests/deploy

try-wheel: wheel ## install that wheel where there is nothing else, and run it
	@rm -rf build/fresh && $(PYTHON) -m venv build/fresh
	@CC=false build/fresh/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: dist/*.whl
	@cd build/fresh && bin/elf --version
	@cd build/fresh && printf '{"k":"a"}\n{"k":"b"}\n{"k":"a"}\n' > log.ndjson && \
		ELF_KERNEL=native bin/elf run -o csv "SELECT k, COUNT(*) AS n FROM log GROUP BY k ORDER BY n DESC" log.ndjson

try-fleet: try-wheel $(NATIVE) ## five hosts with certificates, each in a network namespace, run that wheel (root; 2 minutes)
	@build/fresh/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: "$$(ls dist/*.whl)[signing]"
	@ELF_WHEEL_ELF=$(CURDIR)/build/fresh/bin/elf $(BIN)/python -m pytest -q tests/fleet

lint: $(NATIVE) ## style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check --no-cache .

types: $(NATIVE) ## types, strict
	@$(BIN)/mypy

imports: $(NATIVE) ## who may import whom
	@$(BIN)/lint-imports

check: lint types imports docs test seeds test-numpy sanitize try-fleet ## what .ci/run does, but for the long tests, and with 300 seeds

sim: $(NATIVE) ## 1,000 simulated agents and 100 jobs (minutes)
	ELF_SIM_AGENTS=1000 ELF_SIM_JOBS=100 $(BIN)/python -m pytest -q tests/sim --timeout 3600

SOAK_SEEDS ?= 10000

SEEDS ?= 300

seeds: $(NATIVE) ## SEEDS seeds of the swarm on all cores, of which .ci/run takes the first 60 (15 minutes)
	@rm -f build/seeds-sim.jsonl
	@$(BIN)/python -m tests.sim.swarm --soak $(SEEDS) --journal build/seeds-sim.jsonl

soak-sim: $(NATIVE) ## SOAK_SEEDS seeds of the swarm on all cores; goes on where it was stopped (hours)
	@$(BIN)/python -m tests.sim.swarm --soak $(SOAK_SEEDS) --journal build/soak-sim.jsonl

EXPLORE_GRAPHS ?= 100000
EXPLORE_WORKLOADS ?= 2000
EXPLORE_STATEMENTS ?= 20000

explore: $(NATIVE) ## labels against what schedules of dataflows, statements and fleets show (days); goes on where it was ended
	@$(BIN)/python -m tests.control.coordination.explore build/explore --graphs $(EXPLORE_GRAPHS) \
		--statements $(EXPLORE_STATEMENTS) --workloads $(EXPLORE_WORKLOADS)

FUZZ_PROGRAMS ?= 1000000

fuzz-programs: $(NATIVE) ## annotation files and programs, FUZZ_PROGRAMS inputs each (hours); goes on where it was ended
	@$(BIN)/python -m tests.fuzz.rounds build/fuzz-programs annotations programs --inputs $(FUZZ_PROGRAMS)

BENCH_VENVS ?= $(if $(ELF_BENCH_VENVS),$(ELF_BENCH_VENVS),$(HOME)/.cache/elf-bench/venvs)
BENCH_PEERS := $(patsubst benchmarks/peers/requirements-%.txt,%,$(wildcard benchmarks/peers/requirements-*.txt))

bench-small: $(NATIVE) ## every benchmark in seconds, against the peers that are there
	@for name in cbt parse ingest windows merge; do $(BIN)/python -m benchmarks $$name --small || exit 1; done

guard: $(NATIVE) ## instructions of a start, parsing, the tree and an agent's minute against committed figures; needs valgrind
	@$(BIN)/python -m benchmarks.guard

bench-venvs: ## an environment for each peer, outside the project; one that cannot be had is skipped
	@for peer in $(BENCH_PEERS); do \
		$(PYTHON) -m venv $(BENCH_VENVS)/$$peer && $(BENCH_VENVS)/$$peer/bin/python -m pip install --quiet \
		--disable-pip-version-check -r benchmarks/peers/requirements-$$peer.txt || echo "without $$peer"; done

bench-peers: $(NATIVE) bench-venvs ## all benchmarks at full size against all peers, about an hour; plots into docs
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@for name in cbt parse ingest windows merge; do \
		ELF_BENCH_VENVS=$(BENCH_VENVS) $(BIN)/python -m benchmarks $$name --plots docs/plots || exit 1; done

# The reports of the parts of a benchmark at this commit; a part that is there is not run again.
WIDE = $(foreach part,$(1),build/wide/$(shell git rev-parse --short HEAD)/$(part).json)

build/wide/%.json: | $(NATIVE)
	@mkdir -p $(@D)
	@$(BIN)/python -m benchmarks wide_area --part $(notdir $*) --json > $@.begun && mv $@.begun $@

.SECONDEXPANSION:
wide-sim: $$(call WIDE,legs latency unlabelled faults traffic deaths figure_2) ## jobs at several sites on virtual time with recorded latencies; ELF_WIDE_AGENTS agents; goes on where it was ended

wide-bench: $$(call WIDE,figure_3 figure_4 matrices figure_5) ## the paper's figures on replicas over wide areas, by a model: a month of latencies; goes on where it was ended

wide-real: $$(call WIDE,table_1 takeover) ## processor time by the number of sites, and a killed master, with real agents (half an hour)

page-vendor: ## the live page's libraries and their licences again, in the versions of tools/page-vendor (node, npm)
	@cd tools/page-vendor && npm install --silent --no-audit --no-fund --no-package-lock && node build.mjs && rm -rf node_modules

screenshots: $(NATIVE) ## the pictures of docs/page.md, taken of real agents by Chromium
	@$(BIN)/python -m tests.e2e.screenshots docs/screenshots

clean: ## remove what was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
