# Everything that this file makes lies in .venv and in runs/.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs campaign mutants audit clean

demo: .venv/installed            ## install, then run the main job on simulated models
	$(BIN)/oversight demo
	@echo "· to have the command oversight in this shell: . $(BIN)/activate"

test: .venv/installed-dev        ## lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n auto

docs: .venv/installed            ## the reference of the sweep file and the prompts, from the code
	$(BIN)/python -m oversight.engine.sweeps.reference > docs/.sweep-file.md
	mv docs/.sweep-file.md docs/sweep-file.md
	$(BIN)/python -m oversight.engine.planning.prompt_page > docs/.prompts.md
	mv docs/.prompts.md docs/prompts.md

campaign: .venv/installed-dev    ## the long form of the reliability campaigns
	$(BIN)/pytest -q -m campaign --campaign=long --timeout=3600

mutants: .venv/installed-dev     ## break every mechanism and judge in plausible ways: do tests tell?
	$(BIN)/python -m tests.campaign.mutation

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
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:                           ## remove what this file made, but no run
	rm -rf .venv
