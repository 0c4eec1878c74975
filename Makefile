# Shortcuts for scripts/ and the presets of CMakePresets.json. Builds are in build/<preset>/.
.PHONY: help setup build demo docs test test-release test-torch torture asan tsan wheel release release-test bench format clean

help: ## show this list
	@awk -F ':|## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$3}' Makefile

setup: ## install missing dependencies (Debian 12, Ubuntu 24.04); silent if there are none
	@scripts/setup.sh

build: setup ## build the release preset
	cmake --workflow --preset build

demo: build ## run and check the main features, on a GPU or on the CPU
	@scripts/demo.sh build/release

docs: ## build the documentation's site in build/docs/site: guides, course, C++ and Python reference
	@scripts/setup.sh docs
	@scripts/docs.sh

test: ## build with warnings as errors and run all tests
	@scripts/setup.sh tests
	@scripts/test.sh test

torture: setup ## run the tests with random faults for longer: damaged files, killed processes, bad servers, mutated row programs (minutes)
	@scripts/torture.sh

test-release: ## run the tests with all cases, not only those that cover pairs of values; before a release (an hour)
	@scripts/setup.sh tests
	@TUNESMITH_ALL_CASES=1 scripts/test.sh test

test-torch: setup ## test the Python package with PyTorch on the CPU, in an environment of its own
	@scripts/test_torch.sh

wheel: setup ## build the Python package's wheel and test it in a fresh environment
	@scripts/wheel.sh

release: setup ## make the files of a release of the present version in build/release-VERSION (CONTRIBUTING.md)
	@scripts/release.sh "$$(sed -n 's/^#define TUNESMITH_VERSION "\(.*\)"/\1/p' core/include/tunesmith/version.h)"

release-test: ## install these files in bare Debian 12 and Ubuntu 24.04 systems and use them (root; minutes)
	@scripts/release_test.sh

asan: setup ## run the tests with the address and undefined-behaviour sanitizers
	@scripts/test.sh asan

tsan: setup ## run the tests with the thread sanitizer
	@scripts/test.sh tsan

bench: setup ## build and run the benchmarks (needs a GPU)
	cmake --preset release -DTUNESMITH_BUILD_BENCH=ON
	cmake --build --preset release
	@scripts/bench.sh build/release

format: setup ## format all source files
	@scripts/format.sh

clean: ## remove all builds
	rm -rf build
