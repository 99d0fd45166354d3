# SPDX-License-Identifier: BSD-3-Clause

"""Files in which bytes were changed: they are refused and nothing happened, or they hold what they held."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import CheckpointError
from rsl_rl_sac.utils.checkpoint import find_replays, load_safely, save_atomically
from tests.helpers import differences, whole_state
from tests.properties.helpers import assert_clear, examples, tiny_cfg


@dataclasses.dataclass(repr=False)  # it is long
class Saved:
    """A runner, and two checkpoints of it with their replays."""

    runner: OffPolicyRunner
    early: str
    """Checkpoint after one iteration."""
    late: str
    """Checkpoint after two."""
    contents: dict[str, bytes]
    """Whole files of the later one: ``checkpoint`` and ``replay``."""
    paths: dict[str, pathlib.Path]
    """Where they are."""
    late_state: dict[str, object]
    """State of the runner once that is loaded."""

    def assert_refused_or_as_it_was(self) -> bool:
        """Load the later checkpoint into the runner as it was early; return whether it was refused."""
        before = whole_state(self.runner)
        try:
            self.runner.load(self.late)
        except CheckpointError as error:
            assert_clear(error)
            assert not differences(whole_state(self.runner), before)
            return True
        assert not differences(whole_state(self.runner), self.late_state)
        self.runner.load(self.early)
        return False


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """Train a moment and save twice."""
    folder = tmp_path_factory.mktemp("damaged")
    cfg = tiny_cfg()
    cfg.algorithm.save_replay = True
    runner = OffPolicyRunner(DoubleIntegrator(num_envs=4, max_episode_length=3), cfg.to_dict())
    early, late = str(folder / "early.pt"), str(folder / "late.pt")
    for path in (early, late):
        runner.learn(1)
        runner.save(path)
    runner.load(late)
    late_state = whole_state(runner)
    runner.load(early)
    assert differences(whole_state(runner), late_state)
    paths = {"checkpoint": pathlib.Path(late), "replay": find_replays(late)[0]}
    contents = {kind: path.read_bytes() for kind, path in paths.items()}
    return Saved(runner, early, late, contents, paths, late_state)


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, Callable[[bytes], bytes], str]:
    """Draw which file is damaged, how, and a description of it."""
    kind = draw(st.sampled_from(("checkpoint", "replay")))
    way = draw(st.sampled_from(("flip", "flip", "flip", "cut off", "insert", "delete", "overwrite")))
    # Places as shares of the file. The list of contents, in which few bytes mean much, is in its last part.
    place = st.floats(0.0, 1.0, exclude_max=True) | st.floats(0.8, 1.0, exclude_max=True)
    places = draw(st.lists(place, min_size=1, max_size=4 if way == "flip" else 1))
    values = draw(st.lists(st.integers(1, 255), min_size=4, max_size=4))

    def damage(content: bytes) -> bytes:
        data = bytearray(content)
        first = int(places[0] * len(data))
        if way == "flip":
            for share, value in zip(places, values, strict=False):
                data[int(share * len(data))] ^= value
        elif way == "cut off":
            del data[first:]
        elif way == "insert":
            data[first:first] = bytes(values)
        elif way == "delete":
            del data[first : first + values[0]]
        else:
            data[first : first + values[0]] = bytes(len(data[first : first + values[0]]))
        return bytes(data)

    return kind, damage, f"{way} of the {kind} at {places} with {values}"


@pytest.mark.filterwarnings("error:.*is loaded without its replay")
@pytest.mark.filterwarnings("ignore:Duplicate name")
@examples(1000)
@given(damages())
def test_damaged_bytes(saved: Saved, damage: tuple[str, Callable[[bytes], bytes], str]) -> None:
    """A thousand ways to change bytes of a checkpoint or of its replay."""
    kind, change, _ = damage
    content = saved.contents[kind]
    try:
        saved.paths[kind].write_bytes(change(content))
        saved.assert_refused_or_as_it_was()
    finally:
        saved.paths[kind].write_bytes(content)


def test_most_damage_is_seen(saved: Saved) -> None:
    """One changed bit in the middle of any tensor is refused, and the whole file is not."""
    assert not saved.assert_refused_or_as_it_was()
    for kind, content in saved.contents.items():
        state = load_safely(saved.paths[kind], "cpu")
        tensor = state["replay_token"].encode() if kind == "checkpoint" else state["rewards"].numpy().tobytes()
        damaged = bytearray(content)
        damaged[content.index(tensor) + len(tensor) // 2] ^= 1
        saved.paths[kind].write_bytes(damaged)
        assert saved.assert_refused_or_as_it_was()
        saved.paths[kind].write_bytes(content)


OPTIONAL = {"infos", "rank", "runner", "replay_token"}
"""Parts without which a checkpoint loads, if not for an exact resume."""

FREE = {"infos", "replay_token"}
"""Parts that may be any text: what a user says, and the name of a replay, which may be gone."""


@pytest.mark.parametrize("kind", ["checkpoint", "replay"])
def test_missing_and_wrong_parts(saved: Saved, kind: str) -> None:
    """A whole file that lacks a part, or has a text in its place, is refused before anything has changed."""
    whole = load_safely(saved.paths[kind], "cpu")
    damaged = [(name, {**whole, name: "text"}) for name in whole if name not in FREE]
    damaged += [(name, {key: whole[key] for key in whole if key != name}) for name in whole if name not in OPTIONAL]
    for name, state in damaged:
        save_atomically(state, saved.paths[kind])
        assert saved.assert_refused_or_as_it_was(), name
    saved.paths[kind].write_bytes(saved.contents[kind])


def test_networks_of_another_shape(saved: Saved) -> None:
    """They are refused before anything has changed, those that would have fitted included."""
    cfg = tiny_cfg()
    cfg.critic.hidden_dims = [5]
    other = OffPolicyRunner(DoubleIntegrator(num_envs=4), cfg.to_dict())
    before = whole_state(other)
    with pytest.raises(CheckpointError, match=r"does not fit the networks of this run: the shape of '.*' is") as error:
        other.load(saved.late, {"actor": True, "critic": True})
    assert_clear(error.value)
    assert not differences(whole_state(other), before)
