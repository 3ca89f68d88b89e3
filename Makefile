PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
PROMPT ?= two red circles on the left over a striped blue background
PYTEST ?= -n 3 --dist loadfile --no-loadscope-reorder
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test test-full test-rest test-python check results regress oracle oracle-versions golden structures fuzz bench-convert bench-report bench-compression bench-demo bench-startup bench-kernels bench-distill
.DEFAULT_GOAL := help

help: ## say what make can do
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 27

setup: $(VENV)/ready-for-tests ## make .venv with all that msd and its tests need

demo: $(VENV)/ready ## convert the demo checkpoint, ask the GPU delegate, generate an image: all in demo-out/
	$(BIN)/msd-convert -o demo-out --force
	$(BIN)/delegation-report demo-out
	$(BIN)/msd generate demo-out --prompt "$(PROMPT)" -o demo-out/picture.png --force

test: $(VENV)/ready-for-tests ## run the tests that prove what matters on every change
	$(BIN)/python -m pytest $(PYTEST) --part quick

test-full: $(VENV)/ready-for-tests ## run every test
	$(BIN)/python -m pytest $(PYTEST)

test-rest: $(VENV)/ready-for-tests ## run the tests that `make test` leaves out
	$(BIN)/python -m pytest $(PYTEST) --part rest

test-python: $(VENV)/ready-for-tests ## install msd's wheel, lean and for each other Python here, and run the demo with it
	PYTHONPATH=. $(BIN)/python -m scripts.try_pythons build/pythons

check: $(VENV)/ready-for-tests ## lint, formatting, types, the links and commands in the docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_docs.py
	PYTHONPATH=. $(BIN)/python -m scripts.figures

results: $(VENV)/ready-for-tests ## make figures anew: ONLY="recipes bench-report", names in docs/results
	PYTHONPATH=. $(BIN)/python -m scripts.figures $(or $(ONLY),$(error say which: make results ONLY=recipes))

regress: $(VENV)/ready ## generate the demo's images and compare them with golden ones: build/regress/report/index.html
	$(BIN)/msd-convert -o build/regress/demo --force
	$(BIN)/msd regress demo build/regress/demo -o build/regress/report --junit build/regress/junit.xml --force

fuzz: $(VENV)/ready-for-tests ## feed mutants of good files to every reader: three minutes, or FUZZ="--hours 1"
	PYTHONPATH=. $(BIN)/python scripts/fuzz.py $(FUZZ)

oracle: $(VENV)/ready-for-tests ## ask the real GPU delegate what the rules say of it: 2700 small files, 6 minutes
	PYTHONPATH=. $(BIN)/python scripts/oracle.py -o docs/results/oracle.json

oracle-versions: $(VENV)/ready-for-tests ## the same of every LiteRT release with a GPU accelerator: an hour, 1.2 GB in the cache
	PYTHONPATH=. $(BIN)/python -m scripts.oracle_versions 2.1.2 2.1.3 2.1.4 2.1.5 2.1.6 2.2.0 2.3.0 nightly -o docs/results/oracle-by-version.json

bench-convert: $(VENV)/ready-for-tests ## measure what a full-size conversion costs: 20 GB in build/, an hour and more
	PYTHONPATH=. $(BIN)/python scripts/lab/bench_convert.py build -o docs/results/bench-convert.json/first
	PYTHONPATH=. $(BIN)/python scripts/lab/bench_convert.py build --model xl/sdxl-base --no-converter --no-scaling -o docs/results/bench-convert.json/xl

bench-report: $(VENV)/ready-for-tests ## measure what the rules of delegation-report cost: a minute
	PYTHONPATH=. $(BIN)/python scripts/lab/bench_report.py -o docs/results/bench-report.json

bench-compression: $(VENV)/ready-for-tests ## measure what compression costs the demo checkpoint: 1600 images, half an hour
	PYTHONPATH=. $(BIN)/python -m scripts.lab.measure_compression convert build/compression
	PYTHONPATH=. $(BIN)/python -m scripts.lab.measure_compression draw build/compression
	PYTHONPATH=. $(BIN)/python -m scripts.lab.measure_compression compare build/compression -o docs/results/compression.json

bench-demo: $(VENV)/ready ## measure how long the demo checkpoint's networks take here: ten minutes
	$(BIN)/msd-convert -o build/demo-float16 --recipe float16 --force
	$(BIN)/msd-convert -o build/demo-int8 --force
	$(BIN)/msd bench build/demo-float16 --backend litert-cpu --backend litert-gpu --backend tflite-runtime \
		--threads 1 --max-seconds 10 -o docs/results/bench-demo.json --force
	$(BIN)/msd bench build/demo-int8 --compare build/demo-float16 --backend litert-cpu --backend litert-gpu \
		--threads 1 --max-seconds 10 -o docs/results/bench-demo-int8.json --force

bench-startup: $(VENV)/ready-for-tests ## measure what an app's start costs on a JVM: a minute
	PYTHONPATH=. $(BIN)/python scripts/lab/bench_startup.py -o docs/results/bench-startup.json

bench-kernels: $(VENV)/ready-for-tests ## measure the GPU's kernels beside LiteRT's delegate at full size: a GPU, half an hour
	PYTHONPATH=. $(BIN)/python -m scripts.judge_full_size trace build/structures sd21-base sd15
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_engine build/structures sd21-base sd15 --ablation -o docs/results

bench-distill: $(VENV)/ready-for-tests ## train students of the demo checkpoint, and a full-size U-Net: a GPU, half an hour and more
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill students -o docs/results --work build/students
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill recovered build/students/recovered -o docs/results
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill students --only recovered --updates 3900 --trajectories 8192 -o docs/results --work build/longer --name 8192
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill recovered build/longer/recovered -o docs/results --name 8192 --only recovered
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill killed -o docs/results
	PYTHONPATH=. $(BIN)/python -m scripts.lab.bench_distill full-size -o docs/results

structures: $(VENV)/ready-for-tests ## trace the structures that ship with msd again: three minutes
	PYTHONPATH=. $(BIN)/python -m scripts.ship_structures

golden: $(VENV)/ready-for-tests ## accept what tests/golden/ is compared with, where the numbers hold
	$(BIN)/python -m pytest --update-golden

$(VENV)/ready: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV): minutes, the first time."
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/ready-for-tests: $(VENV)/ready
	@echo "Installing what the tests need into $(VENV): minutes, the first time."
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@
