# `make` alone prints this menu. Everything runs in .venv, made on first use from
# nothing but python3, make and a package index.
#
#   make demo ONCE=1                the example from start to end, then exit
#   make test ARGS="-k saga"        only some tests, on both databases
#   make test RIVET_TEST_PG=wheel   PostgreSQL from its wheel, whatever the machine has

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PY := .venv/bin/python
STAMP := .venv/.installed

.PHONY: help
help: ## print this menu
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(STAMP) ## make .venv and install everything that the other targets need

# The second half of the line is for a Debian without python3-venv, whose own venv
# can't install pip into itself, but whose pip can install one into another Python.
.venv/bin/python:
	python3 -m venv .venv 2>/dev/null \
	  || (rm -rf .venv && python3 -m venv --without-pip .venv \
	      && python3 -m pip --python .venv/bin/python install pip)

$(STAMP): .venv/bin/python pyproject.toml requirements/dev.txt
	$(PY) -m pip install --disable-pip-version-check --quiet --requirement requirements/dev.txt
	$(PY) -m pip install --disable-pip-version-check --quiet --no-deps --editable .
	@touch $@

# The browser tests take the machine's Chromium, or the one in RIVET_TEST_CHROMIUM.
.PHONY: browser
browser: ## where root has none, install Debian's Chromium for the browser tests
	@for name in $(RIVET_TEST_CHROMIUM) chromium chromium-browser google-chrome; do \
	  command -v $$name > /dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then \
	  echo "The browser tests need Chromium: install it, or set RIVET_TEST_CHROMIUM to its path." >&2; exit 1; fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium

.PHONY: test
test: $(STAMP) browser ## the whole suite on SQLite and on PostgreSQL, with real servers
	$(PY) -m tests.services --legs -- -n 2 $(ARGS)

.PHONY: test-quick
test-quick: $(STAMP) ## SQLite only, without the journeys of real processes
	RIVET_TEST_DATABASE=sqlite $(PY) -m tests.services -- \
	  $(PY) -m pytest -n 2 -m "not journey" $(ARGS)

.PHONY: test-more
test-more: $(STAMP) ## what needs Debian's rabbitmq-server and pgbouncer on this machine
	RIVET_TEST_DATABASE=postgresql $(PY) -m tests.services -- $(PY) -m pytest tests/more $(ARGS)

.PHONY: chaos
chaos: $(STAMP) ## real workers under fire (SECONDS=60 SEED=1), an independent ledger at the end
	RIVET_TEST_DATABASE=postgresql $(PY) -m tests.services -- \
	  $(PY) -m tests.chaos --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

.PHONY: lint
lint: $(STAMP) ## style, types, floors, migrations, system checks
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	$(PY) manage.py check

.PHONY: format
format: $(STAMP) ## let ruff repair and format what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: demo
demo: $(STAMP) ## the example shop: web, worker and a story to watch (ONCE=1: then exit)
	$(PY) -m example_project.demo $(if $(ONCE),--once)

.PHONY: docs
docs: $(STAMP) ## build the documentation into docs/_build/html
	$(PY) -m sphinx -W --keep-going -b html docs docs/_build/html

.PHONY: lock
lock: ## resolve requirements/dev.txt anew from pyproject.toml (needs uv)
	uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --extra test --extra lint --extra docs --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" pyproject.toml --output-file requirements/dev.txt

.PHONY: clean
clean: ## remove .venv and everything that was built
	rm -rf .venv build dist docs/_build var .mypy_cache .pytest_cache .ruff_cache \
	  .import_linter_cache .hypothesis htmlcov .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
