# SPDX-License-Identifier: BSD-3-Clause

"""The update against a slow and obvious implementation of the paper's equations, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from tensordict import TensorDict

from rsl_rl_sac.algorithms import SAC
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.models import Actor, CriticEnsemble
from rsl_rl_sac.storage import ReplayStorage

NUM_ENVS, NUM_STEPS, OBS, PRIVILEGED, ACTIONS, BATCH, N_STEP = 3, 40, 4, 2, 2, 16, 3
LOW, HIGH = torch.tensor([-1.0, -2.0]).double(), torch.tensor([3.0, 0.5]).double()
GROUPS = {"actor": ["policy"], "critic": ["policy", "privileged"]}
Layers = list[tuple[torch.Tensor, torch.Tensor]]


class Data:
    """A random stream of transitions with failures and time-outs."""

    def __init__(self) -> None:
        """Draw it."""
        generator = torch.Generator().manual_seed(5)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(NUM_STEPS, NUM_ENVS, *shape, generator=generator)

        self.obs, self.final_obs = 2.0 * normal(OBS + PRIVILEGED) + 1.0, normal(OBS + PRIVILEGED)
        self.actions = LOW + (HIGH - LOW) * torch.sigmoid(normal(ACTIONS))
        self.rewards = normal()
        self.dones = normal() > 1.0
        self.time_outs = self.dones & (normal() > 0.0)

    @staticmethod
    def groups(obs: torch.Tensor) -> TensorDict:
        """Split observations into the groups of an asymmetric actor and critic."""
        return TensorDict({"policy": obs[:, :OBS], "privileged": obs[:, OBS:]}, batch_size=[obs.shape[0]])

    def fill(self, storage: ReplayStorage) -> None:
        """Store the stream."""
        for t in range(NUM_STEPS):
            ends = (self.dones[t], self.time_outs[t], self.groups(self.final_obs[t]))
            storage.add(self.groups(self.obs[t]), self.actions[t], self.rewards[t], *ends)


class SlowAdam:
    """Adam as its authors wrote it."""

    def __init__(self, parameters: list[torch.Tensor], learning_rate: float) -> None:
        """Start with zero moments."""
        self.parameters, self.learning_rate, self.step_count = parameters, learning_rate, 0
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    def step(self, gradients: list[torch.Tensor]) -> None:
        """Take one step."""
        self.step_count += 1
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            m.copy_(0.9 * m + 0.1 * g)
            v.copy_(0.999 * v + 0.001 * g * g)
            m_hat, v_hat = m / (1 - 0.9**self.step_count), v / (1 - 0.999**self.step_count)
            p.data -= self.learning_rate * m_hat / (v_hat.sqrt() + 1e-8)


class SlowSAC:
    """Algorithm 1 of the paper, sample by sample where that is obvious."""

    def __init__(self, alg: SAC, data: Data, cfg: SACCfg) -> None:
        """Copy the initial parameters; everything after is computed here."""
        self.cfg, self.data = cfg, data
        linears = [layer for layer in alg.actor.mlp if isinstance(layer, torch.nn.Linear)]
        self.actor: Layers = [(la.weight.detach().clone(), la.bias.detach().clone()) for la in linears]
        stacked = list(zip(alg.critic.mlp.weights, alg.critic.mlp.biases, strict=True))
        members = range(alg.critic.mlp.num_members)
        self.critics: list[Layers] = [
            [(w[i].detach().T.clone(), b[i, 0].detach().clone()) for w, b in stacked] for i in members
        ]
        self.targets: list[Layers] = [[(w.clone(), b.clone()) for w, b in critic] for critic in self.critics]
        self.actor_parameters = [p.requires_grad_() for layer in self.actor for p in layer]
        self.critic_parameters = [p.requires_grad_() for critic in self.critics for layer in critic for p in layer]
        self.log_alpha = torch.tensor(math.log(cfg.init_temperature), requires_grad=True)
        self.actor_adam = SlowAdam(self.actor_parameters, cfg.actor_learning_rate)
        self.critic_adam = SlowAdam(self.critic_parameters, cfg.critic_learning_rate)
        self.alpha_adam = SlowAdam([self.log_alpha], cfg.temperature_learning_rate)
        everything = data.obs.flatten(0, 1)
        self.mean, self.std = everything.mean(dim=0), everything.std(dim=0, unbiased=False)
        self.count = 0

    @staticmethod
    def network(layers: Layers, x: torch.Tensor) -> torch.Tensor:
        """Evaluate a perceptron with SiLU."""
        for i, (weight, bias) in enumerate(layers):
            x = x @ weight.T + bias
            if i < len(layers) - 1:
                x = x / (1.0 + torch.exp(-x))
        return x

    def normalize(self, obs: torch.Tensor) -> torch.Tensor:
        """Normalize by the statistics of all observations, with rsl_rl's epsilon."""
        return (obs - self.mean) / (self.std + 1e-2)

    def policy(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample actions and their log-probabilities (Eq. 5 and 6)."""
        output = self.network(self.actor, self.normalize(obs)[:, :OBS])
        mean, sigma = output[:, :ACTIONS], torch.exp(torch.clip(output[:, ACTIONS:], -5.0, 2.0))
        x = mean + sigma * torch.randn(mean.shape)
        b, c = 0.5 * (HIGH + LOW), 0.5 * (HIGH - LOW)
        normal = torch.distributions.Normal(mean, sigma).log_prob(x)
        log_prob = (normal - torch.log(1.0 - torch.tanh(x) ** 2) - torch.log(c)).sum(dim=-1)
        return b + c * torch.tanh(x), log_prob

    def values(self, critics: list[Layers], obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Evaluate all critics."""
        x = torch.cat([self.normalize(obs), actions], dim=-1)
        return torch.stack([self.network(critic, x)[:, 0] for critic in critics])

    def update(self, indices: torch.Tensor) -> dict[str, float]:
        """Make one gradient step on the transitions at the given rows."""
        data, cfg = self.data, self.cfg
        places = [divmod(int(index), NUM_ENVS) for index in indices]
        obs = torch.stack([data.obs[t, e] for t, e in places])
        actions = torch.stack([data.actions[t, e] for t, e in places])
        # Which state is the live one of Eq. 11 (failures keep any, with weight zero), then its three terms.
        states, weights, returns = [], [], []
        for t, e in places:
            state, weight, survival, total = data.obs[t + N_STEP, e], 0.0, 1.0, 0.0
            for k in range(N_STEP):
                total += cfg.gamma**k * survival * float(data.rewards[t + k, e])
                if survival * float(data.time_outs[t + k, e]) > 0:
                    state, weight = data.final_obs[t + k, e], cfg.gamma ** (k + 1)
                survival *= 1.0 - float(data.dones[t + k, e])
            states.append(state)
            weights.append(weight + cfg.gamma**N_STEP * survival)
            returns.append(total)
        next_obs = torch.stack(states)
        with torch.no_grad():
            next_actions, next_log_prob = self.policy(next_obs)
            v = self.values(self.targets, next_obs, next_actions).min(dim=0).values
            v = v - torch.exp(self.log_alpha) * next_log_prob
            y = torch.tensor(returns) + torch.tensor(weights) * v
        q = self.values(self.critics, obs, actions)
        critic_loss = torch.stack([((q_i - y) ** 2).mean() for q_i in q]).sum() / len(q)
        critic_norm = self.descend(self.critic_adam, critic_loss, self.critic_parameters)

        result = {"critic": float(critic_loss), "critic_grad_norm": critic_norm}
        updates_policy = self.count % cfg.policy_update_frequency == 0
        if not updates_policy and not cfg.auto_temperature:
            torch.manual_seed(0)  # the noise drawn below is then not used
        new_actions, log_prob = self.policy(obs)
        if cfg.auto_temperature:
            target_entropy = -cfg.target_entropy_scale * ACTIONS
            alpha_loss = (-self.log_alpha * (log_prob.detach() + target_entropy)).mean()
            result["temperature"] = float(alpha_loss)
            self.alpha_adam.step(list(torch.autograd.grad(alpha_loss, [self.log_alpha])))
        if updates_policy:
            alpha = torch.exp(self.log_alpha.detach())
            min_q = self.values(self.critics, obs, new_actions).min(dim=0).values
            actor_loss = (alpha * log_prob - min_q).mean()
            result["actor_grad_norm"] = self.descend(self.actor_adam, actor_loss, self.actor_parameters)
            result.update(actor=float(actor_loss), alpha=float(alpha), entropy=-float(log_prob.mean()))
        for critic, target in zip(self.critics, self.targets, strict=True):
            for layer, target_layer in zip(critic, target, strict=True):
                for p, p_bar in zip(layer, target_layer, strict=True):
                    p_bar.copy_(cfg.tau * p.detach() + (1 - cfg.tau) * p_bar)
        self.count += 1
        return result

    def descend(self, adam: SlowAdam, loss: torch.Tensor, parameters: list[torch.Tensor]) -> float:
        """Clip the gradient to the maximum norm and step; return the norm before clipping."""
        gradients = list(torch.autograd.grad(loss, parameters))
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        adam.step([g * min(1.0, self.cfg.max_grad_norm / (norm + 1e-6)) for g in gradients])
        return norm


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    ("num_critics", "overrides"),
    [
        (2, {}),
        (1, {"max_grad_norm": 0.05}),
        (3, {"policy_update_frequency": 3}),
        (2, {"auto_temperature": False, "init_temperature": 0.2, "policy_update_frequency": 2}),
    ],
)
def test_twenty_steps(num_critics: int, overrides: dict) -> None:
    """Losses, gradient norms, parameters, temperature and targets agree for twenty steps."""
    settings = {"init_temperature": 0.1, "temperature_learning_rate": 1e-2, "tau": 0.05, "training_start_iteration": 0}
    cfg = SACCfg(num_mini_batches=1, batch_size=BATCH, n_step=N_STEP, gamma=0.9, **{**settings, **overrides})
    cfg.actor_learning_rate = cfg.critic_learning_rate = 3e-3
    data = Data()
    example = data.groups(data.obs[0])
    storages = [
        ReplayStorage(
            NUM_ENVS, NUM_ENVS * NUM_STEPS, example, ACTIONS, N_STEP, cfg.gamma, obs_dtype=torch.float64, seed=3
        )
        for _ in range(2)
    ]
    for storage in storages:
        data.fill(storage)
    distribution = {"class_name": "rsl_rl_sac.modules:SquashedGaussian", "low": LOW, "high": HIGH, "init_std": 0.4}
    actor = Actor(example, GROUPS, "actor", ACTIONS, [16, 8], distribution_cfg=distribution)
    critic = CriticEnsemble(example, GROUPS, "critic", ACTIONS, num_critics, [16, 8])
    alg = SAC(actor, critic, storages[0], cfg)
    alg._num_new_steps = NUM_STEPS
    slow = SlowSAC(alg, data, cfg)
    for step in range(20):
        indices = storages[1].sample(BATCH).indices
        torch.manual_seed(step)
        expected = slow.update(indices)
        torch.manual_seed(step)
        metrics = alg.update()
        assert len(expected) >= 2
        for name, value in expected.items():
            assert metrics[name] == pytest.approx(value, rel=1e-8, abs=1e-10), (step, name)
    fast_linears = [layer for layer in alg.actor.mlp if isinstance(layer, torch.nn.Linear)]
    for (weight, bias), linear in zip(slow.actor, fast_linears, strict=True):
        torch.testing.assert_close(linear.weight, weight, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(linear.bias, bias, rtol=1e-8, atol=1e-10)
    for ensemble, members in ((alg.critic.mlp, slow.critics), (alg.target_critic, slow.targets)):
        for i, member in enumerate(members):
            for layer, (weight, bias) in enumerate(member):
                torch.testing.assert_close(ensemble.weights[layer][i].T, weight, rtol=1e-8, atol=1e-10)
                torch.testing.assert_close(ensemble.biases[layer][i, 0], bias, rtol=1e-8, atol=1e-10)
    assert float(alg.log_alpha) == pytest.approx(float(slow.log_alpha), rel=1e-10)
