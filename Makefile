# A thin front: the work is in scripts/ and CMakePresets.json. Builds lie under build/<preset>/.
.PHONY: help setup build demo test asan tsan bench format clean

help: ## this list
	@awk -F ':|## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$3}' Makefile

setup: ## install what is missing (Debian 12, Ubuntu 24.04); silent when nothing is
	@scripts/setup.sh

build: setup ## build the release preset
	cmake --workflow --preset build

demo: build ## the main job on real input, with a GPU or without one
	@scripts/demo.sh build/release

test: setup ## build with warnings as errors, run every test
	@scripts/test.sh test

asan: setup ## the tests under the address and undefined-behaviour sanitizers
	@scripts/test.sh asan

tsan: setup ## the tests under the thread sanitizer
	@scripts/test.sh tsan

bench: build ## the benchmarks; figures mean something on a GPU only
	@scripts/bench.sh build/release

format: setup ## format every source file
	@scripts/format.sh

clean: ## remove every build
	rm -rf build
