# SPDX-License-Identifier: BSD-3-Clause

"""Write docs/configuration.md from the configuration dataclasses and the presets.

    python docs/generate_configuration.py

A test compares the file with the code, so a field that changes without this being run again is found.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rsl_rl_sac.config import RunnerCfg
from rsl_rl_sac.ppo_config import PPORunnerCfg
from rsl_rl_sac.presets import PRESETS, preset
from rsl_rl_sac.utils.config_base import Cfg

PAGE = Path(__file__).with_name("configuration.md")
"""The file that is written."""

TASK_WORDS = ("anymal", "g1", "h1", "rough", "pendulum", "rough-g1")
"""Words in a task's name that presets depend on, and a pair that is not the sum of its parts."""

INTRODUCTION = """\
# Configuration

Written by `make docs` from `src/rsl_rl_sac/config.py`, `ppo_config.py` and `presets.py`. Do not edit it by hand.

Every field can be set in three places:

- **In Python**: `cfg = preset("paper")`, then `cfg.algorithm.gamma = 0.98`. `cfg.to_dict()` is what runners take.
- **On the command line**: `--algorithm.gamma 0.98`; underscores become dashes. A switch has two flags, `--overlap` and
  `--no-overlap`. A section that may be absent is there as soon as a flag is about it, as
  `--algorithm.rnd-cfg.weight 10`; a word in place of flags takes one away: `algorithm.symmetry-cfg:none`.
- **In a file**: `rsl-rl-sac train --config RUN/config.yaml` starts from the settings of a run.

Unknown fields and values out of range are refused with one line.
"""


def make_page() -> str:
    """Return the whole page."""
    parts = [
        INTRODUCTION,
        "## SAC\n",
        *describe_section(RunnerCfg),
        "## PPO\n\nThe fields of rsl_rl's own PPO, for comparison.\n",
        *describe_section(PPORunnerCfg),
        "## Presets\n\nWhat each preset changes, compared with the defaults above. `train --agent ppo --preset NAME`"
        " takes `ppo_NAME`.\n",
        *(describe_preset(name) for name in PRESETS),
    ]
    return "\n".join(parts)


def describe_section(cfg: type[Cfg], path: str = "") -> Iterator[str]:
    """Yield a table of a configuration's own fields, then the same of every section in it."""
    title = f"`{path}`" if path else "The run"
    rows, sections = [], []
    hints, texts = get_type_hints(cfg), field_texts(cfg)
    for field in fields(cfg):  # type: ignore[reportArgumentType]
        section = find_section(hints[field.name])
        if section is not None:
            sections.append((section, f"{path}.{field.name}".lstrip(".")))
        if section is None or field.default is None:
            default = field.default_factory() if callable(field.default_factory) else field.default
            rows.append([f"`{field.name}`", f"`{field.type}`", f"`{default!r}`", texts[field.name]])
    yield f"### {title}\n\n{description(cfg)}\n\n{table(['Field', 'Type', 'Default', 'Meaning'], rows)}"
    for section, section_path in sections:
        yield from describe_section(section, section_path)


def describe_preset(name: str) -> str:
    """Return what a preset changes, and how that depends on the task."""
    base = preset(name)
    changes = table(["Field", "Preset", "Default"], difference(base, type(base)()))
    lines = [f"### `{name}`\n\n{description(PRESETS[name])}\n"]
    lines.append(changes if base != type(base)() else "Nothing: these are the defaults.\n")
    known: list[Any] = [base]
    for word in TASK_WORDS:
        cfg = preset(name, word)
        if cfg not in known or (cfg != base and "-" not in word):
            changed = ", ".join(f"{field} = {value}" for field, value, _ in difference(cfg, base))
            lines.append(f"With `{word.replace('-', '` and `')}` in the task's name: {changed}.\n")
        known.append(cfg)
    return "\n".join(lines)


def difference(cfg: Cfg, other: Cfg) -> list[list[str]]:
    """Return the fields in which two configurations differ, with the value of each."""
    here, there = (dict(flatten(values.to_dict())) for values in (cfg, other))
    absent = object()
    names = [name for name in here if here[name] != there.get(name, absent)]
    return [[f"`{name}`", f"`{here[name]!r}`", f"`{there[name]!r}`" if name in there else ""] for name in names]


def flatten(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested dictionaries by their paths; observation groups stay together."""
    for name, value in values.items():
        if isinstance(value, dict) and name != "obs_groups":
            yield from flatten(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def find_section(hint: Any) -> type[Cfg] | None:  # noqa: ANN401
    """Return the configuration that a type stands for, alone or beside None."""
    sections = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, Cfg)]
    return sections[0] if sections else None


def field_texts(cfg: type[Cfg]) -> dict[str, str]:
    """Return the docstrings under the fields of a dataclass and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cfg.__mro__[:-1]):
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(node, ast.ClassDef)
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                texts[field.target.id] = ast.literal_eval(text.value).replace("``", "`")
    return texts


def description(thing: object) -> str:
    """Return the docstring of a class or function in Markdown."""
    return (inspect.getdoc(thing) or "").replace("``", "`")


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(make_page())
    print(f"Wrote {PAGE}")
