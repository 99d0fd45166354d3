# SPDX-License-Identifier: BSD-3-Clause

"""What a run or an exported policy is."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl_sac.config import UNLIMITED_ITERATIONS, RunnerCfg
from rsl_rl_sac.envs.worlds import find_world
from rsl_rl_sac.locomotion.runs import PolicyFile, file_metadata, load_actor, load_checkpoint
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.presets import PRESETS, preset
from rsl_rl_sac.runners.provenance import read_provenance
from rsl_rl_sac.runners.training import read_curve
from rsl_rl_sac.utils.config_file import to_plain

_NOT_SETTINGS = ("experiment_name", "run_name", "logger", "max_iterations")


@dataclass
class RunInfo:
    """What is known of a policy on the disk, in sections of names and values."""

    title: str
    """What it is."""
    facts: dict[str, str] = field(default_factory=dict)
    """Task, algorithm, steps, scores, time."""
    versions: dict[str, str] = field(default_factory=dict)
    """Packages it was trained with, and the state of the code."""
    preset: str = ""
    """Preset that the configuration is closest to."""
    differences: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Settings that differ from the preset: its value, and that of the run."""


def describe(file: PolicyFile) -> RunInfo:
    """Return what a policy on the disk is."""
    return _describe_export(file) if file.cfg is None else _describe_run(file, file.cfg)


def nearest_preset(task: str, cfg: RunnerCfg | PPORunnerCfg) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return the preset of the same algorithm with the fewest other settings, and these: its value, that of the run."""
    found = []
    world, name_there = find_world(task)
    for name in PRESETS:
        candidate = preset(name, world.preset_key(name_there))
        if type(candidate) is type(cfg):
            there, here = _flat(to_plain(candidate.to_dict())), _flat(to_plain(cfg.to_dict()))
            keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
            found.append((name, {key: (str(there.get(key)), str(here.get(key))) for key in keys}))
    return min(found, key=lambda pair: len(pair[1]))


def _describe_run(file: PolicyFile, cfg: RunnerCfg | PPORunnerCfg) -> RunInfo:
    state = load_checkpoint(file)
    if ":" not in file.task:
        load_actor(file)  # refuses a network that does not fit the task
    infos, iterations = state["infos"], state["iter"] + 1
    curve = read_curve(file.folder / "curve.csv")
    env_steps = infos.get("env_steps", iterations * cfg.num_envs * cfg.num_steps_per_env)
    updates = infos.get("updates", state.get("counters", {}).get("num_updates", 0))
    planned = f" of {cfg.max_iterations:,}" if cfg.max_iterations < UNLIMITED_ITERATIONS else ""
    facts = {
        "task": file.task,
        "algorithm": "SAC" if isinstance(cfg, RunnerCfg) else "rsl_rl's PPO",
        "checkpoint": f"{file.path}",
        "iterations": f"{iterations:,}{planned}",
        "environment steps": f"{env_steps:,}",
        "gradient steps": f"{updates:,}",
        "training time": _duration(infos.get("seconds", 0.0)),
        "environments": f"{cfg.num_envs}, seed {cfg.seed}",
    }
    until_then = [row for row in curve if row["iteration"] <= iterations]
    if until_then:
        last = until_then[-1]
        column, name = ("tracking", "tracking") if "tracking" in last else ("episode_return", "return")
        more = f", return {last['episode_return']:.2f}" if name == "tracking" else ""
        age = "" if last["iteration"] == iterations else f" after {int(last['env_steps']):,} steps"
        facts["last score"] = f"{name} {last[column]:.3f}{more}{age}"
        # As of model_best.pt, for which the untrained policy does not count.
        best = max([row for row in curve if row["iteration"] > 0] or curve, key=lambda row: row[column])
        facts["best of the run"] = f"{name} {best[column]:.3f} after {int(best['env_steps']):,} steps"
    starts = read_provenance(file.folder)
    versions = dict(starts[-1]["versions"]) if starts else {}
    if starts and starts[-1]["git"]:
        git = starts[-1]["git"]
        versions["commit"] = git["commit"][:12] + (" with changes (git.diff)" if git["dirty"] else "")
    if starts:
        times = f", gone on with {len(starts) - 1} times" if len(starts) > 1 else ""
        facts["started"] = f"{starts[0]['started']}{times}"
    name, differences = nearest_preset(file.task, cfg)
    return RunInfo(file.title, facts, versions, name, differences)


def _describe_export(file: PolicyFile) -> RunInfo:
    metadata = file_metadata(file)
    facts = {
        "task": file.task,
        "format": "ONNX" if file.kind == "onnx" else "TorchScript",
        "size": f"{file.path.stat().st_size / 1e3:.0f} kB",
    }
    for name in ("robot", "algorithm", "checkpoint", "iterations", "env_steps", "control_rate", "action_scale"):
        if name in metadata:
            facts[name.replace("_", " ")] = str(metadata[name])
    if "observations" in metadata:
        facts["observations"] = ", ".join(f"{term['name']} {term['size']}" for term in metadata["observations"])
    if "command_ranges" in metadata:
        ranges = metadata["command_ranges"].items()
        facts["commands"] = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in ranges)
    for joint, name in enumerate(metadata.get("joint_names", [])):
        facts[name] = _describe_joint(metadata, joint)
    return RunInfo(file.title, facts, metadata.get("versions", {}))


def _describe_joint(metadata: dict, joint: int) -> str:
    """Return what a controller must know of a joint, in one line."""
    low, high = metadata["soft_joint_limits"][joint]
    line = f"default {metadata['default_joint_pos'][joint]:.3g}, limits {low:.3g} to {high:.3g} rad"
    if metadata.get("action_bounds") is not None:
        line += ", action {:.3g} to {:.3g}".format(*metadata["action_bounds"][joint])
    stiffness, damping, effort = (
        metadata[f"joint_{name}"][joint] for name in ("stiffness", "damping", "effort_limits")
    )
    return f"{line}, stiffness {stiffness:g}, damping {damping:g}, torque {effort:g} N m"


def _flat(values: dict, prefix: str = "") -> dict[str, object]:
    """Return nested settings under the names of their flags."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        if prefix == "" and name in _NOT_SETTINGS:
            continue
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
