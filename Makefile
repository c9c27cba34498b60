# Everything a person runs. Each target does its own set-up first.

BUILD := build/release
JOBS  ?= $(shell nproc)

.PHONY: build binaries setup demo test check cuda format lint clean shape \
  chaos-messages \
  bench-training bench-prediction compare mutation

setup:
	@deploy/setup.sh

build: setup
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || \
	  { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j$(JOBS)

demo: setup
	@$(MAKE) --no-print-directory binaries
	@python3 examples/demo/run_demo.py --bin $(BUILD)/bin --out build/demo

# What the demo needs, without the tests.
binaries:
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || \
	  { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j$(JOBS) --target evenstep evenstep-coordinator \
	  evenstep-worker evenstep-trainer

test: build
	@python3 tests/run_tests.py --build $(BUILD)

# Broken agents against a coordinator and broken trainers against an agent: RUNS
# streams of random messages each, the same ones for the same SEED.
RUNS ?= 1000
SEED ?= 1
chaos-messages: setup
	@.ci/chaos.sh $(RUNS) $(SEED)

# Sanitizers, clang, clang-tidy, format, generated files, fuzzing: each is a
# script in .ci that can be run alone.
check: setup
	@python3 .ci/check.py

format:
	@.ci/format.sh --fix

lint:
	@.ci/format.sh
	@.ci/tidy.sh

# Changes checker, formulas, gate and reductions in one small way after another,
# and fails where no test notices: half an hour. tests/mutation/mutate.py --help.
mutation: setup
	@cmake --preset release >build/configure.log 2>&1 || \
	  { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j$(JOBS) --target planner_test trainer_gate_test \
	  trainer_step_runner_test trainer_adamw_test
	@python3 tests/mutation/mutate.py --build $(BUILD)

# Compiles and links the trainer for GPUs; tests/device/run.sh runs its checks.
cuda: setup
	@.ci/cuda.sh

# The 32-H200 study: prints both tables, writes build/bench/study.md.
bench-study: setup
	@mkdir -p build/bench
	@cmake --preset release >build/configure.log 2>&1 || \
	  { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j$(JOBS) --target planner_study
	@$(BUILD)/bin/planner_study | tee build/bench/study.md

# Every policy on the same samples, minutes; prints tables, writes
# build/bench/training.json. On a quiet machine.
bench-training: setup
	@$(MAKE) --no-print-directory binaries
	@cmake --build $(BUILD) -j$(JOBS) --target draw_lengths
	@python3 bench/training/run_bench.py --bin $(BUILD)/bin \
	  --work build/bench/training --out build/bench/training.json

# How well step times are predicted; fails above the promised errors.
bench-prediction: setup
	@$(MAKE) --no-print-directory binaries
	@cmake --build $(BUILD) -j$(JOBS) --target draw_lengths
	@python3 bench/training/check_prediction.py --bin $(BUILD)/bin \
	  --work build/bench/prediction

# bench-planner: prints a table, writes build/bench/planner.json.
bench-%: setup
	@mkdir -p build/bench
	@cmake --preset release >build/configure.log 2>&1 || \
	  { cat build/configure.log; exit 1; }
	@cmake --build $(BUILD) -j$(JOBS) --target $*_benchmark
	@EVENSTEP_SOURCE_DIR=$(CURDIR) $(BUILD)/bin/$*_benchmark \
	  --benchmark_out=build/bench/$*.json --benchmark_out_format=json

# How much there is to read and how many places one fact has, in numbers;
# AGAINST names commits to compare: make shape AGAINST="v1 HEAD".
shape:
	@python3 .ci/shape.py $(AGAINST)

# What a user of commit AGAINST would see changed: plans, losses, JSON, metrics.
# make compare AGAINST=v1; tests/compare/compare_commits.py --help says more.
compare: setup
	@$(MAKE) --no-print-directory binaries
	@python3 tests/compare/compare_commits.py $(AGAINST)

clean:
	@rm -rf build
