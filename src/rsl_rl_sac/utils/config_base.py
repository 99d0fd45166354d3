# SPDX-License-Identifier: BSD-3-Clause

"""What configuration dataclasses share: conversion from and to plain dictionaries, and checks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from rsl_rl_sac.utils.errors import ConfigError

PPO_KEYS = {
    "learning_rate",
    "schedule",
    "lam",
    "clip_param",
    "entropy_coef",
    "value_loss_coef",
    "use_clipped_value_loss",
    "normalize_advantage_per_mini_batch",
}
"""Keys of rsl_rl's PPO that SAC does not have, for the message to those who come from there."""

T = TypeVar("T", bound="Cfg")


class Cfg:
    """Base of the configurations: conversion from and to plain dictionaries, with checks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as nested plain dictionaries."""
        return asdict(self)  # type: ignore[reportArgumentType]

    @classmethod
    def from_dict(cls: type[T], values: dict[str, Any], where: str = "") -> T:
        """Build a configuration from a plain dictionary.

        Args:
            values: Field names and values; missing fields take their defaults.
            where: Path of the section, for messages.

        Raises:
            ConfigError: If a key is unknown or a value is out of range.
        """
        known = {f.name: f for f in fields(cls)}  # type: ignore[reportArgumentType]
        check_known_keys(values, known, where)
        kwargs = {}
        for name, value in values.items():
            factory = known[name].default_factory
            default = factory() if callable(factory) else None
            kwargs[name] = value
            if isinstance(default, Cfg) and not isinstance(value, dict | Cfg):
                raise ConfigError(f"'{where}{name}' must be a section with settings of its own, got {value!r}.")
            if isinstance(value, dict) and isinstance(default, Cfg):
                kwargs[name] = type(default).from_dict(value, f"{where}{name}.")
            elif isinstance(value, list) and isinstance(known[name].default, tuple):  # YAML has lists only
                kwargs[name] = tuple(value)
        try:
            return cls(**kwargs)
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None


def check_known_keys(values: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise one error that names every unknown key and the nearest known ones."""
    known = list(known)
    unknown = [key for key in values if key not in known]
    if not unknown:
        return
    hints = []
    for key in unknown:
        near = difflib.get_close_matches(key, known, n=2)
        owner = " (a key of PPO)" if key in PPO_KEYS else ""
        hints.append(f"'{where}{key}'{owner}" + (f", did you mean {' or '.join(map(repr, near))}?" if near else ""))
    raise ConfigError(f"Unknown configuration key: {'; '.join(hints)} Known keys here: {', '.join(sorted(known))}.")


def check(ok: bool, name: str, value: object, allowed: str) -> None:
    """Raise an error that says what is allowed, unless the value is."""
    if not ok:
        raise ConfigError(f"{name} must be {allowed}, got {value!r}.")


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_number(cfg: object, name: str, low: float, high: float, open_low: bool = False) -> None:
    """Check that a field is a number in a range."""
    value = getattr(cfg, name)
    ok = is_number(value) and (low < value if open_low else low <= value) and value <= high
    check(ok, name, value, f"a number in {'(' if open_low else '['}{low:g}, {high:g}]")


def check_int(cfg: object, name: str, low: int) -> None:
    """Check that a field is an integer that is large enough."""
    value = getattr(cfg, name)
    check(isinstance(value, int) and not isinstance(value, bool) and value >= low, name, value, f"an integer >= {low}")


def check_hidden_dims(cfg: object) -> None:
    """Check the field ``hidden_dims``."""
    value = getattr(cfg, "hidden_dims")  # noqa: B009
    ok = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(v, int) and v > 0 for v in value)
    check(ok, "hidden_dims", value, "a non-empty list of positive integers")
