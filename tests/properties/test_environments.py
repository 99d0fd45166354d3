# SPDX-License-Identifier: BSD-3-Clause

"""Environments of any size, type and shape: each trains as its numbers say, or is refused with one clear line."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.runners import OffPolicyRunner
from rsl_rl_sac.utils import ConfigError, EnvContractError
from tests.helpers import differences, flat_state
from tests.properties.helpers import assert_clear, assert_same_outcome, clear_error_or_none, examples, quiet, tiny_cfg

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)
NUMBERS = (*FLOATS, *INTEGERS)


@dataclasses.dataclass
class Layout:
    """Sizes and types of an environment."""

    num_envs: int = 3
    num_actions: int = 1
    sizes: dict[str, int] = dataclasses.field(default_factory=lambda: {"policy": 2})
    """Observations of each group."""
    obs_dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    """Types of the groups, in turn."""
    reward_dtype: torch.dtype = torch.float32
    done_dtype: torch.dtype = torch.bool
    time_out_dtype: torch.dtype = torch.bool

    def in_usual_types(self) -> Layout:
        """Return the same sizes with the types that every environment has."""
        return Layout(self.num_envs, self.num_actions, self.sizes)


class WholeNumbers(VecEnv):
    """Observations and rewards are random integers from -3 to 3, which every type can hold."""

    def __init__(self, layout: Layout, wrong: str = "", shape: tuple[int, ...] = ()) -> None:
        """Initialize.

        Args:
            layout: Sizes and types.
            wrong: What has a wrong shape, if anything: ``obs``, ``rewards``, ``dones``, ``time_outs`` or ``final_obs``.
            shape: The wrong shape.
        """
        self.layout, self.wrong, self.shape = layout, wrong, shape
        self.num_envs, self.num_actions = layout.num_envs, layout.num_actions
        self.max_episode_length, self.device, self.cfg = 3, "cpu", {}
        self.action_bounds = (-torch.ones(layout.num_actions), torch.ones(layout.num_actions))
        self.episode_length_buf = torch.zeros(layout.num_envs, dtype=torch.long)
        self.generator = torch.Generator().manual_seed(0)
        self.obs = self._draw_obs()

    def _draw(self, *shape: int) -> torch.Tensor:
        return torch.randint(-3, 4, shape, generator=self.generator)

    def _draw_obs(self, is_wrong: bool = False) -> TensorDict:
        groups = {}
        for i, (group, size) in enumerate(self.layout.sizes.items()):
            dtype = self.layout.obs_dtypes[i % len(self.layout.obs_dtypes)]
            groups[group] = self._draw(*(self.shape if is_wrong else (self.num_envs, size))).to(dtype)
        return TensorDict(groups, batch_size=[])

    def get_observations(self) -> TensorDict:
        """Return the current observations."""
        return self.obs

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Draw what comes next; of the environments that end at their time, every other one failed."""
        assert actions.shape == (self.num_envs, self.num_actions)
        self.episode_length_buf = self.episode_length_buf + 1
        dones = self.episode_length_buf >= self.max_episode_length
        self.episode_length_buf[dones] = 0
        self.obs = self._draw_obs(self.wrong == "obs")
        vectors = {
            "rewards": self._draw(self.num_envs).to(self.layout.reward_dtype),
            "dones": dones.to(self.layout.done_dtype),
            "time_outs": (dones & (torch.arange(self.num_envs) % 2 == 0)).to(self.layout.time_out_dtype),
        }
        if self.wrong in vectors:
            vectors[self.wrong] = torch.zeros(self.shape, dtype=vectors[self.wrong].dtype)
        final_obs = self._draw_obs(self.wrong == "final_obs")
        extras = {"time_outs": vectors["time_outs"], "final_obs": final_obs}
        return self.obs, vectors["rewards"], vectors["dones"], extras


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw sizes and types."""
    count = draw(st.integers(1, 3))
    return Layout(
        num_envs=draw(st.integers(1, 4)),
        num_actions=draw(st.integers(1, 3)),
        sizes={name: draw(st.integers(1, 3)) for name in ("policy", "critic", "other")[:count]},
        obs_dtypes=tuple(draw(st.lists(st.sampled_from(NUMBERS), min_size=count, max_size=count))),
        reward_dtype=draw(st.sampled_from(NUMBERS)),
        done_dtype=draw(st.sampled_from((torch.bool, torch.uint8, torch.int64, torch.float32))),
        time_out_dtype=draw(st.sampled_from((torch.bool, torch.uint8, torch.int64, torch.float32))),
    )


def _trained(layout: Layout, settings: dict[str, Any], is_stock: bool, overlap: bool) -> dict[str, object]:
    """Train a moment; return the state of the algorithm, replay included."""
    torch.manual_seed(0)
    cfg = tiny_cfg(layout.num_envs)
    cfg.overlap = overlap
    groups = list(layout.sizes)
    cfg.obs_groups = {"actor": groups[:1], "critic": groups}
    for name, value in settings.items():
        setattr(cfg.algorithm, name, value)
    runner = (OnPolicyRunner if is_stock else OffPolicyRunner)(WholeNumbers(layout), cfg.to_dict())
    runner.learn(2)
    state = flat_state(runner.alg.save())
    return {name: value.float() if isinstance(value, torch.Tensor) else value for name, value in state.items()}


@quiet
@examples(60)
@given(
    layout=layouts(),
    replay_size=st.integers(1, 24),
    n_step=st.integers(1, 4),
    batch_size=st.integers(1, 9),
    with_rnd=st.booleans(),
    is_stock=st.booleans(),
    overlap=st.booleans(),
)
def test_any_size_and_type(
    layout: Layout,
    replay_size: int,
    n_step: int,
    batch_size: int,
    with_rnd: bool,
    is_stock: bool,
    overlap: bool,
) -> None:
    """Numbers of any type train the same networks as in float32; a replay too short for a window is refused."""
    settings: dict[str, Any] = {"replay_size": replay_size, "n_step": n_step, "batch_size": batch_size}
    settings |= {"save_replay": True, "rnd_cfg": {"num_outputs": 2} if with_rnd else None}
    fits = replay_size // layout.num_envs >= n_step + 1
    with clear_error_or_none() as errors:
        found = _trained(layout, settings, is_stock, overlap)
        expected = _trained(layout.in_usual_types(), settings, is_stock, overlap)
        assert not differences(found, expected)
    assert_same_outcome(errors, None if fits else ConfigError)


@quiet
@examples(80)
@given(
    wrong=st.sampled_from(("obs", "rewards", "dones", "time_outs", "final_obs")),
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    is_stock=st.booleans(),
)
def test_any_wrong_shape_in_a_step(wrong: str, shape: tuple[int, ...], is_stock: bool) -> None:
    """A step whose tensors are not as large as they must be is refused, and never stretched to the right shape."""
    layout = Layout()
    is_right = shape == ((3, 2) if wrong in ("obs", "final_obs") else (3,))
    cfg = tiny_cfg(layout.num_envs).to_dict()
    cfg["check_for_nan"] = not is_stock  # rsl_rl looks for NaN before it hands the step over
    with clear_error_or_none() as errors:
        runner = (OnPolicyRunner if is_stock else OffPolicyRunner)(WholeNumbers(layout, wrong, shape), cfg)
        runner.learn(1)
    assert_same_outcome(errors, None if is_right else EnvContractError)


@quiet
@pytest.mark.parametrize("is_stock", [False, True])
@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("num_envs", 0), ("num_envs", 4), ("num_envs", 3.0), ("num_envs", None), ("num_actions", -1),
        ("num_actions", "2"), ("obs", torch.zeros(3, 2)), ("obs", None), ("obs", TensorDict({}, batch_size=[])),
        ("obs", TensorDict({"policy": torch.zeros(3)}, batch_size=[])),
        ("obs", TensorDict({"policy": torch.zeros(3, 2, 2)}, batch_size=[])),
        ("obs", TensorDict({"policy": torch.zeros(4, 2)}, batch_size=[])),
        ("action_bounds", None), ("action_bounds", (0.0,)), ("action_bounds", (torch.ones(1), torch.zeros(1))),
        ("action_bounds", (torch.zeros(2), torch.ones(3))), ("action_bounds", ("a", "b")), ("action_bounds", 3.0),
    ],
)  # fmt: skip
def test_environments_that_are_none(attribute: str, value: object, is_stock: bool) -> None:
    """Before anything is built, the environment is told apart from one that can be trained."""
    env = WholeNumbers(Layout())
    setattr(env, attribute, value)
    with pytest.raises((EnvContractError, ConfigError)) as error:
        (OnPolicyRunner if is_stock else OffPolicyRunner)(env, tiny_cfg(3).to_dict())
    assert_clear(error.value)


DEVICES = [
    "cuda:0",
    "cuda",
    "cuda:99",
    "mps",
    "xpu:3",
    "meta",
    "cpu:7",
    "cpu",
    "gpu",
    "",
    "cuda:-1",
    "CPU",
    None,
    0,
    1.5,
]


@quiet
@examples(60)
@given(st.sampled_from(DEVICES) | st.text(), st.booleans())
def test_any_device(device: Any, is_of_replay: bool) -> None:  # noqa: ANN401
    """A device that is not there is named; one that is there is trained on."""
    cfg = tiny_cfg().to_dict()
    if is_of_replay:
        cfg["algorithm"]["replay_device"] = device
    with clear_error_or_none() as errors:
        runner = OffPolicyRunner(DoubleIntegrator(num_envs=4), cfg, device="cpu" if is_of_replay else device)
        runner.learn(1)
    for error in errors:
        assert isinstance(error, ConfigError) and "device" in str(error)
    if device == "cpu":
        assert not errors


@quiet
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_absent_gpu_in_the_stock_runner() -> None:
    """rsl_rl's runner hands the device to the algorithm, which says that there is none."""
    with pytest.raises(ConfigError, match=r"device = 'cuda:0' is not a device of this machine"):
        OnPolicyRunner(DoubleIntegrator(num_envs=4), tiny_cfg().to_dict(), device="cuda:0")
