# fumehood: two commands for a newcomer, `make demo` and `make test`. Each sets up what is missing first.
SHELL := /bin/sh
BIN := .venv/bin
export UV_LINK_MODE := copy
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup demo test test-long test-browser conformance lint format bench audit lock image image-test clean
help:
	@echo "make demo       review, serve and run what is bundled, then review a server from the npm registry"
	@echo "make test       every test that takes seconds"
	@echo "make test-long  those that take minutes"
	@echo "make test-browser  the report in Chromium (installs Chromium as root; needs the npm registry)"
	@echo "make conformance  MCP's conformance suite and the inspector (needs the npm registry)"
	@echo "make lint       ruff, mypy, import contracts, workflows, bandit, a scan for secrets"
	@echo "make bench      benchmarks beside their peers"
	@echo "make audit      known vulnerabilities of what the lock names (needs other hosts)"
	@echo "make image      the container of the code runner (needs buildah and mmdebstrap)"
	@echo "make image-test containment inside it, then a WebSocket client (needs podman and runc)"
	@echo "make lock       write requirements.lock anew"

setup: .venv/ready
.venv/ready: requirements.lock pyproject.toml scripts/setup
	@sh scripts/setup

demo: setup
	@$(BIN)/python scripts/demo.py

test: setup
	@sh scripts/test

test-long: setup
	@$(BIN)/python -m pytest -m long

test-browser: setup
	@sh scripts/test-browser

conformance: setup
	@$(BIN)/python scripts/conformance.py
	@$(BIN)/python scripts/gateway_conformance.py

lint: setup
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > .lint-imports.log 2>&1 || { cat .lint-imports.log; exit 1; }
	@sh scripts/lint-workflows
	@$(BIN)/bandit --quiet --severity-level medium --configfile pyproject.toml --recursive src scripts
	@$(BIN)/gitleaks dir . --no-banner --log-level error --redact --verbose --config .gitleaks.toml

format: setup
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: setup
	@$(BIN)/python bench/review.py
	@$(BIN)/python bench/serve.py
	@$(BIN)/python bench/code.py
	@$(BIN)/python bench/gateway.py
	@$(BIN)/python bench/patterns.py
	@$(BIN)/python bench/redaction.py $(if $(CASES),--cases $(CASES))
	@$(BIN)/python bench/injection.py

audit: setup
	@$(BIN)/uv tool run pip-audit@2.10.1 --strict --require-hashes --disable-pip -r requirements.lock

lock: setup
	@sh scripts/lock

image: setup
	@sh deploy/code-runner/build

image-test: setup
	@$(BIN)/python deploy/code-runner/image_test.py $(IMAGE)

clean:
	rm -rf .venv .cache build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
