# Everything here sets up what it needs in a virtual environment of its own; a second call finds it ready.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
RSL_RL_VERSIONS ?= 5.0.1 5.4.2 5.5.1
# What imports mjlab; pyproject.toml keeps it out of the type check in the environment without.
MJLAB_CODE := src/rsl_rl_sac/envs/mjlab.py src/rsl_rl_sac/runners/mjlab_runner.py src/rsl_rl_sac/tasks/mjlab.py \
	$(wildcard tests/envs/mjlab/*.py)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The constraints pin versions for one Python; with another, pip fails late and at length.
define make_venv
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
		echo "Python 3.11 is needed, found: $(or $(PYTHON),no python) $$($(PYTHON) --version 2>/dev/null)." \
			"Name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	$(PYTHON) -m venv $(1)
endef

.PHONY: demo demo-optimum test lint types pytest format docs figures compat test-mjlab test-isaaclab benchmark benchmark-gymnasium clean

DEMO_TASK := Velocity-Flat-Unitree-Go2

demo: $(VENV)/.ready  ## Teach a quadruped to walk, score, export (eight minutes at most, and set-up)
	$(BIN)/rsl-rl-sac train $(DEMO_TASK) --minutes 8 --until 0.9 --evaluation-minutes 0.5 --name demo
	$(BIN)/rsl-rl-sac evaluate $(DEMO_TASK)
	$(BIN)/rsl-rl-sac export $(DEMO_TASK)

demo-optimum: $(VENV)/.ready  ## Train on a problem with a known optimum, score, export (about a minute)
	$(BIN)/python examples/double_integrator.py

test: lint types pytest  ## Lint, type check, test

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/pyright --pythonpath $(BIN)/python

pytest: $(VENV)/.ready
	$(BIN)/python -m pytest

format: $(VENV)/.ready  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready  ## Write the pages that are made from the code
	$(BIN)/python docs/generate_configuration.py

figures: $(VENV)/.ready  ## Draw the figures of results/
	$(BIN)/python results/make_figures.py

compat: $(RSL_RL_VERSIONS:%=compat-%)  ## Run the tests on every supported rsl_rl

compat-%: $(VENV)-rsl-rl-%/.ready
	$(VENV)-rsl-rl-$*/bin/python -m pytest

test-mjlab: $(VENV)/.ready $(VENV)-mjlab/.ready  ## Type check and test what needs mjlab
	$(BIN)/pyright --pythonpath $(VENV)-mjlab/bin/python $(MJLAB_CODE)
	$(VENV)-mjlab/bin/python -m pytest tests/envs/mjlab

test-isaaclab: $(VENV)-isaaclab/.ready  ## Test with Isaac Lab's own code, without its simulator
	$(VENV)-isaaclab/bin/python -m pytest tests/envs/isaaclab

benchmark: $(VENV)-benchmark/.ready $(VENV)-mjlab/.ready  ## Measure all (an hour and a half, on an idle machine)
	$(VENV)-benchmark/bin/python benchmarks/learner.py
	$(VENV)-benchmark/bin/python benchmarks/replay.py
	$(VENV)-benchmark/bin/python benchmarks/ensemble.py
	$(VENV)-benchmark/bin/python benchmarks/profile_step.py
	$(VENV)-benchmark/bin/python benchmarks/physics.py --mjlab-python $(VENV)-mjlab/bin/python
	$(VENV)-benchmark/bin/python benchmarks/physics_settings.py
	$(VENV)-benchmark/bin/python benchmarks/exploration.py
	$(VENV)-benchmark/bin/python benchmarks/coarse_terrain.py
	$(VENV)-benchmark/bin/python benchmarks/critic_error.py
	$(VENV)-benchmark/bin/python benchmarks/saturation.py
	$(VENV)-benchmark/bin/python benchmarks/rnd.py
	$(VENV)-benchmark/bin/python benchmarks/distributed.py
	$(VENV)-benchmark/bin/python benchmarks/symmetry.py

benchmark-gymnasium: $(VENV)-benchmark/.ready  ## Train on Gymnasium's tasks, ours and Stable-Baselines3's (a day)
	$(VENV)-benchmark/bin/python benchmarks/gymnasium_peers.py

clean:  ## Remove the virtual environments
	rm -rf $(VENV) $(VENV)-*

$(VENV)/.ready: pyproject.toml constraints.txt
	$(call make_venv,$(VENV))
	@echo "Setting up $(VENV), which takes two to three minutes ..."
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)-benchmark/.ready: pyproject.toml constraints.txt
	$(call make_venv,$(VENV)-benchmark)
	$(VENV)-benchmark/bin/pip install --quiet --constraint constraints.txt --editable '.[benchmark]'
	@touch $@

$(VENV)-mjlab/.ready: pyproject.toml constraints-mjlab.txt
	$(call make_venv,$(VENV)-mjlab)
	$(VENV)-mjlab/bin/pip install --quiet --constraint constraints-mjlab.txt torch mjlab pytest --editable '.[demo]'
	@touch $@

# The wheel comes without its dependencies: they are for the simulator, and another torch is among them.
$(VENV)-isaaclab/.ready: pyproject.toml constraints.txt constraints-isaaclab.txt
	$(call make_venv,$(VENV)-isaaclab)
	$(VENV)-isaaclab/bin/pip install --quiet --constraint constraints.txt --constraint constraints-isaaclab.txt \
		gymnasium hydra-core prettytable pytest scipy toml trimesh --editable .
	$(VENV)-isaaclab/bin/pip install --quiet --no-deps --constraint constraints-isaaclab.txt isaaclab
	@touch $@

$(VENV)-rsl-rl-%/.ready: pyproject.toml constraints.txt
	$(call make_venv,$(VENV)-rsl-rl-$*)
	grep -v '^rsl-rl-lib' constraints.txt > $(VENV)-rsl-rl-$*/constraints.txt
	$(VENV)-rsl-rl-$*/bin/pip install --quiet --constraint $(VENV)-rsl-rl-$*/constraints.txt \
		rsl-rl-lib==$* --editable '.[dev]'
	@touch $@

.PRECIOUS: $(VENV)-rsl-rl-%/.ready
