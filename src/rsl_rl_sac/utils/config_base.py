# SPDX-License-Identifier: BSD-3-Clause

"""What configuration dataclasses share: conversion from and to plain dictionaries, and checks."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rsl_rl.utils import resolve_callable, resolve_nn_activation

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

LARGEST_INT = 2**63 - 1
"""Largest integer that torch takes as a size or a seed."""

LARGEST_LAYER = 2**20
"""Largest hidden layer; far beyond what is of use, but building it ends."""

_NAMES_OF_OBJECTS = ("class_name", "data_augmentation_func")
"""Fields where rsl_rl takes a class or a function as well as its name."""

_WORDS = {
    int: "an integer below 2^63",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "None",
}

T = TypeVar("T", bound="Cfg")


class Cfg:
    """Base of the configurations: conversion from and to plain dictionaries, with checks."""

    wider_types = {}  # noqa: RUF012  (an annotation would make it a field)
    """Types of fields that take more in Python than the command line, which reads the annotations, can say."""

    optional_sections = {}  # noqa: RUF012
    """Configurations of fields that may be None."""

    def __post_init__(self) -> None:
        """Check that every value is of the type that its field declares."""
        hints = get_type_hints(type(self))
        for name in (field.name for field in fields(self)):  # type: ignore[arg-type]
            value, hint = getattr(self, name), self.wider_types.get(name, hints[name])
            if not (is_of_type(value, hint) or (name in _NAMES_OF_OBJECTS and callable(value))):
                raise ConfigError(f"{name} must be {describe_type(hint)}, got {shown(value)}.")

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
        if not isinstance(values, dict):
            raise ConfigError(f"'{where.rstrip('.') or cls.__name__}' must be a dictionary, got {shown(values)}.")
        known = {f.name: f for f in fields(cls)}  # type: ignore[reportArgumentType]
        check_known_keys(values, known, where)
        kwargs = {}
        for name, value in values.items():
            factory = known[name].default_factory
            default = factory() if callable(factory) else None
            kwargs[name] = value
            if isinstance(default, Cfg) and not isinstance(value, dict | Cfg):
                raise ConfigError(f"'{where}{name}' must be a section with settings of its own, got {shown(value)}.")
            section = type(default) if isinstance(default, Cfg) else cls.optional_sections.get(name)
            if isinstance(value, dict) and section is not None and (value or default is not None):
                kwargs[name] = section.from_dict(value, f"{where}{name}.")
            elif isinstance(value, list) and isinstance(known[name].default, tuple):  # YAML has lists only
                kwargs[name] = tuple(value)
        try:
            return cls(**kwargs)
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None

    @classmethod
    def check_values(cls, values: dict[str, Any], where: str = "") -> None:
        """Raise an error if a dictionary, which may have keys of others too, has a bad value for a field of this class.

        Args:
            values: Values by name.
            where: Path of the section, for messages.
        """
        if not isinstance(values, dict):
            raise ConfigError(f"'{where.rstrip('.') or cls.__name__}' must be a dictionary, got {shown(values)}.")
        known = {f.name for f in fields(cls)}  # type: ignore[reportArgumentType]
        cls.from_dict({name: value for name, value in values.items() if name in known}, where)


def check_known_keys(values: Iterable[object], known: Iterable[str], where: str = "") -> None:
    """Raise one error that names every unknown key and the nearest known ones."""
    known = list(known)
    unknown = [key for key in values if key not in known]
    if not unknown:
        return
    hints = []
    for key in (str(key) for key in unknown):
        near = difflib.get_close_matches(key, known, n=2)
        owner = " (a key of PPO)" if key in PPO_KEYS else ""
        hints.append(
            f"'{where}{one_line(key)}'{owner}" + (f", did you mean {' or '.join(map(repr, near))}?" if near else "")
        )
    text = "; ".join(hints)
    end = "" if text.endswith("?") else "."
    raise ConfigError(f"Unknown configuration key: {text}{end} Known keys here: {', '.join(sorted(known))}.")


def check(ok: bool, name: str, value: object, allowed: str) -> None:
    """Raise an error that says what is allowed, unless the value is."""
    if not ok:
        raise ConfigError(f"{name} must be {allowed}, got {shown(value)}.")


def one_line(text: str, longest: int = 200) -> str:
    """Return a text on one line that is not too long to read."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line, and short however deep or long it is."""
    if isinstance(value, int) and abs(value) > LARGEST_INT:  # Python refuses to print very long ones
        return f"an integer of {value.bit_length()} bits"
    shortener = Repr()
    shortener.maxstring = shortener.maxother = 60
    try:
        return one_line(shortener.repr(value))
    except Exception:  # whatever the value is, the message is about something else
        return f"a {type(value).__name__}"


def is_int(value: object) -> bool:
    """Return whether a value is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    if is_int(value):
        return abs(value) <= LARGEST_INT  # type: ignore[arg-type]  # beyond, it may not even become a float
    return isinstance(value, float) and math.isfinite(value)


def is_of_type(value: object, hint: Any) -> bool:  # noqa: ANN401
    """Return whether a value is of a declared type. Tuples and lists count as each other: YAML has lists only."""
    arguments = get_args(hint)
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        return any(is_of_type(value, argument) for argument in arguments)
    if kind is tuple:
        is_like = isinstance(value, list | tuple) and len(value) == len(arguments)
        return is_like and all(map(is_of_type, value, arguments))  # type: ignore[arg-type]
    if kind is list:
        return isinstance(value, list | tuple) and all(is_of_type(item, arguments[0]) for item in value)
    if kind is dict:
        key_type, item_type = arguments
        return isinstance(value, dict) and all(
            is_of_type(key, key_type) and is_of_type(item, item_type) for key, item in value.items()
        )
    if hint is int:
        return is_int(value) and abs(value) <= LARGEST_INT  # type: ignore[arg-type]
    if hint is float:
        return is_number(value)
    return isinstance(value, hint)


def describe_type(hint: Any) -> str:  # noqa: ANN401
    """Say in words what :func:`is_of_type` accepts."""
    arguments = get_args(hint)
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        return " or ".join(describe_type(argument) for argument in arguments)
    if kind is tuple:
        return f"{len(arguments)} values, each {describe_type(arguments[0])}"
    if kind is list:
        return f"a list, each item {describe_type(arguments[0])}"
    if kind is dict:
        return f"a dictionary, each value {describe_type(arguments[1])}"
    return _WORDS.get(hint, f"a {hint.__name__}")


def check_number(cfg: object, name: str, low: float, high: float, open_low: bool = False) -> None:
    """Check that a field is a number in a range."""
    value = getattr(cfg, name)
    ok = is_number(value) and (low < value if open_low else low <= value) and value <= high
    check(ok, name, value, f"a number in {'(' if open_low else '['}{low:g}, {high:g}]")


def check_int(cfg: object, name: str, low: int, high: int = LARGEST_INT) -> None:
    """Check that a field is an integer in a range."""
    value = getattr(cfg, name)
    check(is_int(value) and value >= low, name, value, f"an integer >= {low}")
    check(value <= high, name, value, f"at most {high}")


def check_pair(cfg: object, name: str, low: float, high: float) -> None:
    """Check that a field is two different numbers in a range, the smaller one first."""
    first, second = getattr(cfg, name)
    check(low <= first < second <= high, name, (first, second), f"two numbers in [{low:g}, {high:g}], low < high")


def check_hidden_dims(cfg: object, name: str = "hidden_dims", allows_input_size: bool = False) -> None:
    """Check a field that lists the sizes of hidden layers.

    Args:
        cfg: Configuration.
        name: Field.
        allows_input_size: Whether a size may be -1, which stands for that of the input.
    """
    sizes = getattr(cfg, name)
    ok = len(sizes) > 0 and all(0 < size <= LARGEST_LAYER or (allows_input_size and size == -1) for size in sizes)
    allowed = f"a non-empty list of positive integers{' or -1' if allows_input_size else ''}"
    check(ok, name, sizes, f"{allowed}, none above {LARGEST_LAYER}")


def check_activation(cfg: object) -> None:
    """Check that rsl_rl knows the activation function."""
    name = getattr(cfg, "activation")  # noqa: B009
    try:
        resolve_nn_activation(name)
    except ValueError as error:
        raise ConfigError(one_line(f"activation: {error}", 500)) from error


def resolve(name: object, where: str) -> Callable:
    """Return the class or function that a setting names.

    Args:
        name: Name as rsl_rl writes it, ``module:name``, or the class or function itself.
        where: Setting, for the message.
    """
    try:
        return resolve_callable(name)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"{where} = {shown(name)} cannot be found ({one_line(str(error))}).") from error
