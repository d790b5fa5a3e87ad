MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help serve install serve-compiled compile test test-compiled check format openapi docs lock bench bench-quick chaos try-scale release compatibility \
	interop storms
.NOTPARALLEL:

# The tests start more than a hundred gateways; without bytecode each of them would compile app/ again.
test test-compiled storms: export PYTHONDONTWRITEBYTECODE =
# More processes than cores, because many tests wait for other processes and for clocks.
WORKERS = $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 4 ? 12 : cores * 3)))
IN_PARALLEL = --numprocesses $(WORKERS) --dist worksteal

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

serve: ## run the gateway (ARGS="--port 9000", EXTRAS="guards otel postgres")
	@scripts/bootstrap runtime $(EXTRAS)
	@exec .venv/bin/parley serve $(ARGS)

install: ## put the command parley on your PATH: a link in ~/.local/bin (BIN=/usr/local/bin, EXTRAS="guards otel postgres")
	@scripts/bootstrap runtime $(EXTRAS)
	@scripts/install $(BIN)

compile: ## copy app/ to build/compiled with the modules of the hot path compiled to C; needs gcc
	@scripts/compile build/compiled

# PYTHONSAFEPATH keeps Python from looking for app/ in the current folder first.
serve-compiled: compile ## run the gateway from build/compiled (ARGS="--port 9000")
	@exec env PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled .venv/bin/parley serve $(ARGS)

test: ## run the tests, and check that all of them run 95 % of app/ (PYTEST_ARGS="-k cache" runs some)
	@scripts/bootstrap dev
	@.venv/bin/python -m pytest $(IN_PARALLEL) $(PYTEST_ARGS)

test-compiled: ## run the tests with the compiled modules (PYTEST_ARGS="-k cache" runs some)
	@scripts/test-compiled $(IN_PARALLEL) $(PYTEST_ARGS)

storms: ## send identical requests at once, kill callers and gateways and stop Redis, fifty times (SEEDS=200)
	@scripts/bootstrap dev
	@SEEDS=$(or $(SEEDS),50) .venv/bin/python -m pytest -s tests/live/test_storm*.py tests/live/test_outage.py tests/live/test_killed.py $(PYTEST_ARGS)

check: ## formatting, lint, types, words, import contracts, coverage of the pure modules, size, generated files
	@scripts/bootstrap dev
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@set -e; for script in scripts/check-*; do "$$script"; done
	@scripts/measure-code --check

format: ## format the code
	@scripts/bootstrap dev
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

openapi: ## write openapi/openapi.json
	@scripts/bootstrap runtime
	@mkdir -p openapi
	@.venv/bin/parley openapi >openapi/.new && mv openapi/.new openapi/openapi.json || { rm -f openapi/.new; exit 1; }

docs: ## build the documentation as a site, in build/site
	@scripts/bootstrap dev
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet
	@echo "docs: open build/site/index.html"

lock: ## write the lock files from pyproject.toml (LOCK_ARGS=--upgrade)
	@scripts/lock $(LOCK_ARGS)

bench: compile ## measure speed beside others and write what the pages say of it (ARGS goes to bench/run)
	@bench/run --write $(ARGS); met=$$?; scripts/sizing && exit $$met

bench-quick: compile ## count instructions and compare them with their bounds (ARGS="--update" sets these)
	@exec .venv/bin/python bench/quick --compiled $(ARGS)

chaos: ## let servers and gateways fail at random and check every reply (ARGS="--seconds 900 --seed 7")
	@scripts/bootstrap runtime
	@exec .venv/bin/python bench/chaos $(ARGS)

try-scale: ## run two gateways, nginx, Redis, PostgreSQL and Prometheus as Compose does, and check that they work together
	@scripts/bootstrap runtime
	@exec .venv/bin/python deploy/try-scale

release: ## build and check the sdist, the wheel, the SBOM and the image of the tag of this commit (ARGS=--no-image)
	@exec scripts/release $(ARGS)

compatibility: ## write docs/evidence/compatibility.md (PARLEY_STREAMS names the recorded replies)
	@scripts/bootstrap dev
	@.venv/bin/python scripts/compatibility

interop: ## try real client packages and write docs/evidence/compatibility.md (ARGS="openai-3"; PARLEY_GOLDENS)
	@scripts/bootstrap dev
	@exec .venv/bin/python scripts/interop $(ARGS)
