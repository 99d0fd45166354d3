# SPDX-License-Identifier: BSD-3-Clause

"""Two processes with half of the environments and of the batch each are one process with all of them."""

from __future__ import annotations

import torch

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.envs import DoubleIntegrator
from rsl_rl_sac.utils.distributed import join_processes, launched_rank
from tests.helpers import small_cfg
from tests.processes import run_processes

NUM_ENVS, BATCH_SIZE, NUM_STEPS, NUM_ITERATIONS, NUM_MINI_BATCHES = 16, 64, 8, 3, 4


class Prepared:
    """Transitions, draws from the replay and noise of the policy, of all environments, the same in every process."""

    def __init__(self) -> None:
        """Draw everything."""
        generator = torch.Generator().manual_seed(5)
        env = DoubleIntegrator(NUM_ENVS, max_episode_length=5, failure_position=1.2, seed=2)
        self.steps = []
        for _ in range(NUM_ITERATIONS * NUM_STEPS):
            obs = env.get_observations()
            actions = torch.rand(NUM_ENVS, 1, generator=generator) * 5.0 - 2.0
            self.steps.append((obs, actions, *env.step(actions)[1:]))
            env.states[: NUM_ENVS // 2] += 0.1  # the halves differ: a statistic of one process is not that of both
        shape = (NUM_ITERATIONS, NUM_MINI_BATCHES, BATCH_SIZE // 2)
        envs = [torch.randint(NUM_ENVS // 2, shape, generator=generator) + r * NUM_ENVS // 2 for r in range(2)]
        self.envs = torch.cat(envs, dim=-1)
        self.starts = torch.randint(NUM_STEPS - 3, (NUM_ITERATIONS, NUM_MINI_BATCHES, BATCH_SIZE), generator=generator)
        self.noise = torch.randn(2 * NUM_ITERATIONS * NUM_MINI_BATCHES, BATCH_SIZE, 1, generator=generator)


def learn(part: slice, batch: slice, multi_gpu: dict | None) -> dict[str, torch.Tensor | float]:
    """Feed a part of the transitions to SAC, let it learn from a part of every batch, and return what it became."""
    torch.manual_seed(launched_rank())  # different networks, until they are broadcast
    prepared = Prepared()
    env = DoubleIntegrator(part.stop - part.start)
    # In the first iteration the KL divergence of one half alone, 5.0e-5, would lower the learning rate; 3.6e-5, that of
    # both, does not.
    cfg = small_cfg(batch_size=batch.stop - batch.start, desired_kl=2e-5, actor_learning_rate=1e-4).to_dict()
    cfg["multi_gpu"] = multi_gpu
    cfg["algorithm"]["training_start_iteration"] = 0
    alg = SAC.construct_algorithm(env.get_observations(), env, cfg, "cpu")
    alg.train_mode()
    if multi_gpu is not None:
        alg.broadcast_parameters()
    noise = iter(prepared.noise)
    torch.randn_like = lambda *_: next(noise)[batch]  # type: ignore[assignment]
    losses, rates = {}, []
    for iteration in range(NUM_ITERATIONS):
        for obs, actions, rewards, dones, extras in prepared.steps[iteration * NUM_STEPS :][:NUM_STEPS]:
            alg.storage.add(
                obs[part],
                actions[part],
                rewards[part],
                dones[part],
                extras["time_outs"][part],
                extras["final_obs"][part],
            )
        alg._num_new_steps = NUM_STEPS
        starts = (prepared.starts[iteration][:, batch], prepared.envs[iteration][:, batch] - part.start)
        alg.storage._draw_starts = lambda _, starts=starts: starts
        losses = alg.update()
        rates.append(alg.learning_rate)
    assert next(noise, None) is None  # every step had its noise
    networks = {"actor": alg.actor, "critic": alg.critic, "target": alg.target_critic}
    weights = {f"{name}/{key}": t for name, net in networks.items() for key, t in net.state_dict().items()}
    return {**weights, "log_alpha": alg.log_alpha.detach(), "rates": torch.tensor(rates), **losses}


def learn_whole() -> dict[str, torch.Tensor | float] | None:
    """Learn from everything, in the first of two processes that do not know of each other."""
    torch.set_default_dtype(torch.float64)
    return learn(slice(0, NUM_ENVS), slice(0, BATCH_SIZE), None) if launched_rank() == 0 else None


def learn_half() -> dict[str, torch.Tensor | float]:
    """Learn as one of two processes."""
    torch.set_default_dtype(torch.float64)
    join_processes("cpu")
    rank = launched_rank()
    part, batch = (slice(rank * size // 2, (rank + 1) * size // 2) for size in (NUM_ENVS, BATCH_SIZE))
    return learn(part, batch, {"global_rank": rank, "local_rank": rank, "world_size": 2})


def test_two_halves_are_one_whole() -> None:
    """Weights, targets, temperature, statistics, learning rates and losses agree to rounding."""
    whole, _ = run_processes(learn_whole)
    halves = run_processes(learn_half)
    assert whole["actor/obs_normalizer.count"] == NUM_ITERATIONS * NUM_STEPS * NUM_ENVS
    assert len(set(whole["rates"].tolist())) > 1 and len(whole) > 30
    for half in halves:
        assert half.keys() == whole.keys()
        for name, value in whole.items():
            torch.testing.assert_close(
                half[name], value, rtol=1e-9, atol=1e-11, msg=lambda m, name=name: f"{name}: {m}"
            )
