# SPDX-License-Identifier: BSD-3-Clause

"""Checks of a saved state before any of it is loaded, so that a training that cannot go on from it stays as it is."""

from __future__ import annotations

from collections.abc import Collection

import torch

from rsl_rl_sac.utils.checkpoint import check_network, check_parts
from rsl_rl_sac.utils.errors import CheckpointError

_KINDS: dict[str, dict[str, type]] = {
    "actor": {"actor_state_dict": dict},
    "critic": {"critic_state_dict": dict, "target_critic_state_dict": dict, "log_alpha": torch.Tensor},
    "optimizer": {f"{name}_optimizer_state_dict": dict for name in ("actor", "critic", "temperature")},
    "iteration": {"explorer": dict, "counters": dict, "annealing": dict},
    "replay": {"counters": dict},
}
"""What each part that can be loaded consists of."""

_INNER_KINDS: dict[str, dict[str, type]] = {
    "counters": {"iteration": int, "num_updates": int, "learns_after": int},
    "annealing": {"progress": float, "start": int},
    "explorer": {"noise": torch.Tensor, "generator": torch.Tensor},
}
"""What is inside of some of them."""

_ATOMS = "head.support"
"""Values of a categorical critic's atoms, which its logits mean nothing without."""


def check_saved_state(state: dict, parts: dict, networks: dict[str, torch.nn.Module], strict: bool) -> None:
    """Raise an error if a state is not one of SAC with these networks.

    Args:
        state: State.
        parts: Parts that shall be loaded, by name.
        networks: Networks by the name of their state.
        strict: Whether the parameters must match exactly.
    """
    if parts.get("critic") and "target_critic_state_dict" not in state:
        raise CheckpointError("This is not a checkpoint of SAC: it has no target critics (PPO's looks like that).")
    needed = {name: kind for part, kinds in _KINDS.items() if parts.get(part) for name, kind in kinds.items()}
    check_parts({"rank": 0, **state}, {"rank": int, **needed}, "The checkpoint")
    check_kept_parts(state, [part for part in _INNER_KINDS if part in needed], "The checkpoint")
    for name, network in networks.items():
        if strict and name in needed:
            check_network(state[name], network.state_dict())
            _check_atoms(state[name], network.state_dict())


def check_kept_parts(state: dict, names: Collection[str], what: str) -> None:
    """Raise an error if dictionaries of a state are missing, or if they lack what they hold in a state of SAC.

    Args:
        state: State.
        names: Names of the dictionaries.
        what: What to call the state.
    """
    check_parts(state, dict.fromkeys(names, dict), what)
    for name in names:
        check_parts(state[name], _INNER_KINDS[name], f"The part '{name}' of {what[0].lower()}{what[1:]}")


def _check_atoms(saved: dict, own: dict) -> None:
    if _ATOMS in own and not torch.equal(saved[_ATOMS].to(own[_ATOMS]), own[_ATOMS]):
        ranges = [(float(values[_ATOMS][0]), float(values[_ATOMS][-1])) for values in (saved, own)]
        raise CheckpointError(
            f"The checkpoint's critics were trained with critic.value_range = {ranges[0]}, this run has {ranges[1]}."
        )
