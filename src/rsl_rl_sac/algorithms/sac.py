# SPDX-License-Identifier: BSD-3-Clause

"""Soft Actor-Critic for massively parallel simulation (Algorithm 1 of the paper)."""

from __future__ import annotations

import copy
import math

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from rsl_rl_sac.algorithms.actor_average import ActorAverage
from rsl_rl_sac.algorithms.annealing import Annealing
from rsl_rl_sac.algorithms.construction import build_actor, build_critic, build_storage, check_env, resolve_groups
from rsl_rl_sac.algorithms.learning_rates import LearningRates
from rsl_rl_sac.algorithms.metrics import METRICS, find_break
from rsl_rl_sac.algorithms.opening import Opening, build_opening
from rsl_rl_sac.algorithms.saved_state import check_saved_state
from rsl_rl_sac.config import SACCfg
from rsl_rl_sac.envs.action_bounds import resolve_action_bounds
from rsl_rl_sac.envs.check_vec_env import check_final_obs, check_step
from rsl_rl_sac.extensions import ReplayRND, Symmetry, build_rnd, build_symmetry
from rsl_rl_sac.models import Actor, ActorSample, CriticEnsemble
from rsl_rl_sac.models.observations import normalized_observations, same_observations, sees_the_same
from rsl_rl_sac.modules.explorer import Explorer
from rsl_rl_sac.storage import Batch, ReplayStorage
from rsl_rl_sac.utils.allocator import reuse_large_allocations
from rsl_rl_sac.utils.devices import check_device, within_memory
from rsl_rl_sac.utils.distributed import average, broadcast, update_normalization
from rsl_rl_sac.utils.errors import CheckpointError, NonFiniteError
from rsl_rl_sac.utils.flat_parameters import FlatAdam, FlatParameters
from rsl_rl_sac.utils.seeding import rank_seed


class SAC:
    """Soft Actor-Critic in rsl_rl's algorithm protocol.

    Reference:
        - Sabatini et al. "Bridging the Gap: Enabling Soft Actor Critic for High Performance Legged Locomotion." (2026).
    """

    actor: Actor
    """The policy."""

    critic: CriticEnsemble
    """The Q-functions."""

    def __init__(
        self,
        actor: Actor,
        critic: CriticEnsemble,
        storage: ReplayStorage,
        cfg: SACCfg | None = None,
        device: str = "cpu",
        multi_gpu_cfg: dict | None = None,
        symmetry: Symmetry | None = None,
        seed: int = 0,
        rnd: ReplayRND | None = None,
        opening: Opening | None = None,
    ) -> None:
        """Initialize the algorithm.

        Args:
            actor: Policy.
            critic: Q-functions.
            storage: Replay.
            cfg: Settings, the paper's if None.
            device: Device of the learner.
            multi_gpu_cfg: Rank and number of processes as rsl_rl's runner gives them, None for one process.
            symmetry: Augmentation of the mini-batches and mirror loss, if any.
            seed: Seed of the exploration.
            rnd: Intrinsic rewards, if any.
            opening: Bounds of the actions that open as training goes on, if they do.
        """
        self.cfg = cfg or SACCfg()
        self.device = torch.device(device)
        self.world_size = multi_gpu_cfg["world_size"] if multi_gpu_cfg is not None else 1
        self.rank = multi_gpu_cfg["global_rank"] if multi_gpu_cfg is not None else 0
        self.storage = storage
        self.actor = actor.to(self.device)
        self.critic = critic.to(self.device)
        # The targets share the observation normalizer of the critics: only the networks lag behind.
        self.target_critic = copy.deepcopy(self.critic.mlp).requires_grad_(False)

        init_temperature = self.cfg.init_temperature
        log_alpha = math.log(init_temperature) if init_temperature > 0.0 else -math.inf
        self.log_alpha = torch.tensor(log_alpha, device=self.device, requires_grad=self.cfg.auto_temperature)

        self._actor_parameters = FlatParameters(self.actor.mlp.parameters())
        self._critic_parameters = FlatParameters(self.critic.mlp.parameters())
        self._target_parameters = FlatParameters(self.target_critic.parameters())
        self.actor_optimizer = FlatAdam(self._actor_parameters.vector, self.cfg.actor_learning_rate)
        self.critic_optimizer = FlatAdam(self._critic_parameters.vector, self.cfg.critic_learning_rate)
        self.temperature_optimizer = FlatAdam(self.log_alpha, self.cfg.temperature_learning_rate)
        optimizers = (self.actor_optimizer, self.critic_optimizer, self.temperature_optimizer)
        self._learning_rates = LearningRates(self.cfg, *optimizers)

        self.iteration = 0
        """Number of calls of :meth:`update`."""
        self.num_updates = 0
        """Number of gradient steps of the critics."""
        self.last_saved_iteration: int | None = None
        """Value of :attr:`iteration` at the last :meth:`save`."""
        self.names_last_save = True
        """Whether errors say when that was; a runner that knows the file says so instead."""
        self._learns_after = self.cfg.training_start_iteration
        """Iterations after which gradient steps begin."""
        self.annealing = Annealing(self.cfg.target_entropy_updates, self.cfg.anneal_progress)
        self.symmetry = symmetry
        self.rnd, self.opening = rnd, opening
        num_steps = self.cfg.average_actor_steps
        self.average = ActorAverage(self.actor, self._actor_parameters, num_steps) if num_steps is not None else None
        """Average of the actor, which is then the policy for all but training."""
        self.intrinsic_rewards: torch.Tensor | None = None
        """Intrinsic rewards of the last vector step, for the logger."""
        num_actions = self.actor.distribution.output_dim
        noise = self.cfg.exploration_scale, self.cfg.exploration_correlation
        self.explorer = Explorer(storage.num_envs, num_actions, *noise, seed, self.device)
        self._num_new_steps = 0
        self._last_obs: TensorDict | None = None
        self._next_obs: TensorDict | None = None
        self._last_actions: torch.Tensor | None = None

    @property
    def learning_rate(self) -> float:
        """Learning rate of the actor, for the logger."""
        return self.actor_optimizer.param_groups[0]["lr"]

    @property
    def target_entropy(self) -> float:
        """Entropy that the temperature holds the policy at, which may change as training goes on."""
        scale, final_scale = self.cfg.target_entropy_scale, self.cfg.final_target_entropy_scale
        if final_scale is not None:
            scale += self.annealing.share(self.num_updates) * (final_scale - scale)
        return -scale * self.actor.distribution.output_dim

    @property
    def alpha(self) -> torch.Tensor:
        """Temperature."""
        return self.log_alpha.detach().exp()

    # -- Collection --------------------------------------------------------------------------------------------------

    def act(self, obs: TensorDict) -> torch.Tensor:
        """Sample actions of the current policy."""
        actions = self.explorer.act(self.actor, obs).detach()
        self.record(obs, actions)
        return actions

    def record(self, obs: TensorDict, actions: torch.Tensor) -> None:
        """Take note of actions, which may come from a copy of the policy; :meth:`process_env_step` stores them."""
        if self._next_obs is not None and not same_observations(obs, self._next_obs):
            self.storage.cut()  # somebody stepped or reset the environment in between
        self._last_obs = obs
        self._last_actions = actions

    def replace_actions(self, actions: torch.Tensor) -> None:
        """Take note of actions that were taken in place of those that :meth:`act` returned."""
        self._last_actions = actions

    def process_env_step(self, obs: TensorDict, rewards: torch.Tensor, dones: torch.Tensor, extras: dict) -> None:
        """Store one vector step.

        Args:
            obs: Observations after the step, and after the reset of those that ended; the next :meth:`act` stores them.
            rewards: Rewards. Shape: ``(num_envs,)``.
            dones: Whether the episode ended, by failure or by time. Shape: ``(num_envs,)``.
            extras: May hold ``time_outs`` and, if any is set, must hold ``final_obs``; steps that are ``invalid``; and
                the ``progress`` that :attr:`SACCfg.anneal_progress` waits for.
        """
        if self._last_obs is None or self._last_actions is None:
            raise RuntimeError("process_env_step() was called without act().")
        shapes = {group: values.shape[1:] for group, values in self.storage.observations.items()}
        check_step(shapes, obs, rewards, dones, extras)
        if not bool(torch.isfinite(rewards).all()):
            envs = torch.nonzero(~torch.isfinite(rewards)).flatten().tolist()
            raise NonFiniteError(
                f"The environment returned a non-finite reward for environment {envs[:8]}"
                f"{' and more' if len(envs) > 8 else ''}, after {self.iteration} iterations and {self.num_updates}"
                f" gradient steps; it was not stored.{self._last_save()}"
            )
        time_outs, final_obs, invalid = (extras.get(name) for name in ("time_outs", "final_obs", "invalid"))
        if self.cfg.missing_final_obs == "error":
            check_final_obs(dones, time_outs, final_obs)
        if self.rnd is not None:
            self.intrinsic_rewards = self.rnd.process_step(obs, dones, time_outs, final_obs)
            rewards = rewards if self.rnd.cfg.recompute_rewards else rewards + self.intrinsic_rewards
        self.annealing.observe(extras)
        self.storage.add(self._last_obs, self._last_actions, rewards, dones, time_outs, final_obs, invalid)
        self._num_new_steps += 1
        self._last_obs = self._last_actions = None
        self._next_obs = obs

    def compute_returns(self, obs: TensorDict) -> None:
        """Do nothing: returns are computed from the replay when it is sampled."""

    # -- Learning ----------------------------------------------------------------------------------------------------

    @within_memory("a gradient step", "algorithm.batch_size or algorithm.num_mini_batches")
    def update(self) -> dict[str, float]:
        """Make the gradient steps of one iteration and return the mean of :data:`METRICS`."""
        self.iteration += 1
        for parameters in (self._actor_parameters, self._critic_parameters, self._target_parameters):
            parameters.ensure_bound()
        self._update_normalization()
        self.annealing.decide(self.num_updates, self.device, self.world_size)
        share = self.annealing.share(self.num_updates)
        self._learning_rates.anneal(share)
        if self.opening is not None:
            self.opening.open(self.actor, share, *([] if self.average is None else [self.average.policy]))
        if self.iteration <= self._learns_after or self.storage.num_valid_steps == 0:
            return {}
        num_steps = self.cfg.num_learning_epochs * self.cfg.num_mini_batches
        history = torch.zeros(num_steps, len(METRICS), device=self.device)
        counts: dict[str, int] = dict.fromkeys(METRICS, 0)
        zero = torch.zeros((), device=self.device)
        probe: tuple[torch.Tensor, tuple[torch.Tensor, ...]] | None = None
        same_latents = sees_the_same(self.actor, self.critic)
        for i, batch in enumerate(self.storage.mini_batches(num_steps, self.cfg.batch_size)):
            batch = batch.to(self.device) if self.storage.device != self.device else batch
            metrics: dict[str, torch.Tensor] = {}
            if self.rnd is not None:
                batch = self.rnd.add_rewards(batch, self.storage)
                metrics["rnd"] = self.rnd.learn(batch.observations)
            # After the novelty, which is that of what was met, not of its mirror image.
            batch = self.symmetry.augment(batch) if self.symmetry is not None else batch
            if probe is None and self.cfg.desired_kl is not None:
                latent = self.actor.get_latent(batch.observations)
                probe = (latent, self.actor.distribution_parameters(latent))
            metrics |= self._gradient_step(batch, same_latents)
            self.num_updates += 1
            # Kept on the device: reading numbers at every step would make a GPU wait.
            history[i] = torch.stack([metrics.get(name, zero) for name in METRICS])
            for name in metrics:
                counts[name] += 1
        self._check_finite(average(history, self.world_size))
        if self.cfg.desired_kl is not None and probe is not None and counts["actor"] > 0:
            latent, old = probe
            new = self.actor.distribution_parameters(latent)
            kl = average(self.actor.distribution.kl_divergence(old, new).mean(), self.world_size)
            self._learning_rates.adapt(float(kl))  # the same in every process
        sums = dict(zip(METRICS, history.sum(dim=0).tolist(), strict=True))
        return {name: sums[name] / count for name, count in counts.items() if count > 0}

    def _gradient_step(self, batch: Batch, same_latents: bool) -> dict[str, torch.Tensor]:
        """Update critics, temperature, actor and targets; ``same_latents`` says that all see the same of a state."""
        updates_policy = self._is_policy_step()
        updates_temperature = self.cfg.auto_temperature and self.num_updates >= self.cfg.actor_start_update
        # The next states above the states: what is needed of both is computed at once.
        num_next, both = len(batch.actions), (batch.next_observations, batch.observations)
        actor_latent = normalized_observations(self.actor, *both)
        critic_latent = actor_latent if same_latents else normalized_observations(self.critic, *both)
        next_latent, latent = critic_latent[:num_next], critic_latent[num_next:]
        if not (updates_policy or updates_temperature):
            actor_latent = actor_latent[:num_next]
        next_sample, sample = self.actor.sample_in_parts(actor_latent, num_next, keep=updates_policy)

        metrics = self._update_critic(batch, latent, next_latent, *next_sample)
        if updates_temperature:
            metrics |= self._update_temperature(sample.log_prob.detach())
        if updates_policy:
            metrics |= self._update_actor(batch, latent, sample)
        self._target_parameters.follow(self._critic_parameters, self.cfg.tau)
        return metrics

    def _update_critic(
        self,
        batch: Batch,
        latent: torch.Tensor,
        next_latent: torch.Tensor,
        next_actions: torch.Tensor,
        next_log_prob: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Minimize the soft Bellman residual of the n-step target, averaged over the critics (Eq. 2 and 11)."""
        with torch.no_grad():
            next_outputs = self.target_critic(next_latent, next_actions)
            values = self.critic.reduce(self.critic.head(next_outputs), self.cfg.value_reduction)
            soft_values = values - self.alpha * next_log_prob
            target = self.cfg.reward_scale * batch.returns + batch.discounts * soft_values
        loss, value = self.critic.compute_gradient(latent, batch.actions, target, self._critic_parameters)
        grad_norm = self._critic_parameters.clip_gradient(self.cfg.max_grad_norm, self.world_size)
        self.critic_optimizer.step()
        return {"critic": loss, "critic_grad_norm": grad_norm, "q_value": value}

    def _update_temperature(self, log_prob: torch.Tensor) -> dict[str, torch.Tensor]:
        """Move the entropy of the policy towards its target (Eq. 4), by a loss that is linear in log alpha."""
        surplus = -log_prob.mean() - self.target_entropy
        loss = self.log_alpha.detach() * surplus
        self.log_alpha.grad = average(surplus, self.world_size)
        self.temperature_optimizer.step()
        return {"temperature": loss, "alpha": self.alpha}

    def _update_actor(self, batch: Batch, latent: torch.Tensor, sample: ActorSample) -> dict[str, torch.Tensor]:
        """Maximize value plus entropy, through the reparameterized actions (Eq. 3)."""
        alpha, entropy = self.alpha, -sample.log_prob.detach().mean()
        value, value_grad = self.critic.action_gradient(latent, sample.actions, self.cfg.value_reduction)
        # The loss, the mean of alpha log pi - Q, is linear in log pi; what it owes to the actions is Q's alone.
        log_prob_grad = (alpha / len(latent)).expand_as(sample.log_prob)
        self.actor.compute_gradient(sample, -value_grad, log_prob_grad, self._actor_parameters)
        metrics = {"actor": -alpha * entropy - value, "alpha": alpha, "entropy": entropy}
        if self.symmetry is not None and self.symmetry.has_mirror_loss:
            mirror_loss = self.symmetry.mirror_loss(self.actor, batch.observations)
            metrics["symmetry"] = mirror_loss.detach()
            if self.symmetry.use_mirror_loss:
                self._actor_parameters.add_gradient(self.symmetry.mirror_loss_coeff * mirror_loss)
        grad_norm = self._actor_parameters.clip_gradient(self.cfg.max_grad_norm, self.world_size)
        self.actor_optimizer.step()
        if self.average is not None:
            self.average.follow()
        return {**metrics, "actor_grad_norm": grad_norm}

    def _is_policy_step(self) -> bool:
        """Return whether the next gradient step moves the actor too."""
        since_start = self.num_updates - self.cfg.actor_start_update
        return since_start >= 0 and since_start % self.cfg.policy_update_frequency == 0

    def _update_normalization(self) -> None:
        """Update the observation statistics by what was collected since the last call.

        Not in :meth:`process_env_step`: rsl_rl up to 5.4.2 calls that in inference mode, which would turn the
        statistics into inference tensors that no checkpoint can be loaded into.
        """
        if self._num_new_steps > 0:
            obs = self.storage.newest_observations(self._num_new_steps).to(self.device, self.storage.dtype)
            update_normalization(self.actor, obs, self.world_size)
            update_normalization(self.critic, obs, self.world_size)
            if self.rnd is not None:
                self.rnd.update_normalization(obs)
            self._num_new_steps = 0

    def _check_finite(self, history: torch.Tensor) -> None:
        """Raise an error that names the first gradient step and quantity that went wrong."""
        broken = find_break(history)
        if broken is not None:
            update = self.num_updates - history.shape[0] + broken[0]
            raise NonFiniteError(
                f"The training broke at gradient step {update} (iteration {self.iteration - 1}): {', '.join(broken[1])}"
                f" became NaN or infinite.{self._last_save()}"
            )

    def _last_save(self) -> str:
        if not self.names_last_save:
            return ""
        if self.last_saved_iteration is None:
            return " No checkpoint was saved before."
        return f" The last good checkpoint was saved after iteration {self.last_saved_iteration - 1}."

    # -- rsl_rl's protocol -------------------------------------------------------------------------------------------

    def train_mode(self) -> None:
        """Set train mode for the models."""
        for model in self._models():
            model.train()

    def eval_mode(self) -> None:
        """Set evaluation mode for the models."""
        for model in self._models():
            model.eval()

    def _models(self) -> list[torch.nn.Module]:
        return [self.actor, self.critic] + ([self.rnd] if self.rnd is not None else [])

    def get_policy(self) -> Actor:
        """Return the policy to use: the actor, or its average."""
        return self.actor if self.average is None else self.average.policy

    def save(self) -> dict:
        """Return the state of the algorithm as tensors, numbers and dictionaries of them."""
        self.last_saved_iteration = self.iteration
        state = {
            "actor_state_dict": self.actor.state_dict(),
            "critic_state_dict": self.critic.state_dict(),
            "target_critic_state_dict": self.target_critic.state_dict(),
            "log_alpha": self.log_alpha.detach().clone(),
            "actor_optimizer_state_dict": self.actor_optimizer.state_dict(),
            "critic_optimizer_state_dict": self.critic_optimizer.state_dict(),
            "temperature_optimizer_state_dict": self.temperature_optimizer.state_dict(),
            "explorer": self.explorer.state_dict(),
            "annealing": self.annealing.state_dict(),
            "rank": self.rank,
            "counters": {
                "iteration": self.iteration,
                "num_updates": self.num_updates,
                "num_new_steps": self._num_new_steps,
                "learns_after": self._learns_after,
            },
        }
        if self.average is not None:
            state["average_state_dict"] = self.average.state_dict()
        if self.rnd is not None:
            state["rnd_state_dict"] = self.rnd.save()
        if self.cfg.save_replay:
            state["replay_state_dict"] = self.storage.state_dict()
        return state

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Load what was saved.

        Args:
            loaded_dict: What :meth:`save` returned. A true ``env_continues`` in it says that the environment goes on
                where it was; otherwise the replay is told that what comes next follows from nothing in it.
            load_cfg: Parts to load: ``actor``, ``critic`` (with targets and temperature), ``optimizer``, ``iteration``,
                ``replay`` and ``rnd``. None loads everything there is.
            strict: Whether the parameters must match exactly.

        Returns:
            Whether the runner shall take over the iteration.
        """
        parts = dict.fromkeys(("actor", "critic", "optimizer", "iteration", "replay", "rnd"), True)
        parts = parts if load_cfg is None else load_cfg
        models = {"actor": self.actor, "critic": self.critic, "target_critic": self.target_critic}
        networks = {f"{name}_state_dict": network for name, network in models.items()}
        check_saved_state(loaded_dict, parts, networks, strict)
        has_replay = bool(parts.get("replay")) and "replay_state_dict" in loaded_dict
        is_own = loaded_dict.get("rank", 0) == self.rank  # rsl_rl's runner saves the first of many processes only
        if has_replay:
            self.storage.check_state_dict(loaded_dict["replay_state_dict"])
        if self.average is not None and parts.get("actor"):
            self.average.check_state_dict(loaded_dict.get("average_state_dict"), strict)
        rnd = self.rnd if parts.get("rnd") else None
        if rnd is not None:
            rnd.check(loaded_dict.get("rnd_state_dict"), has_replay, strict)
        try:
            if parts.get("actor"):
                self.actor.load_state_dict(loaded_dict["actor_state_dict"], strict=strict)
                if self.average is not None:
                    self.average.load_state_dict(loaded_dict.get("average_state_dict"), strict)
            if parts.get("critic"):
                self.critic.load_state_dict(loaded_dict["critic_state_dict"], strict=strict)
                self.target_critic.load_state_dict(loaded_dict["target_critic_state_dict"], strict=strict)
                with torch.no_grad():
                    self.log_alpha.copy_(loaded_dict["log_alpha"])
            if parts.get("optimizer"):
                for name in ("actor", "critic", "temperature"):
                    getattr(self, f"{name}_optimizer").load_state_dict(loaded_dict[f"{name}_optimizer_state_dict"])
                self._learning_rates.reset()
            if rnd is not None:
                rnd.load(loaded_dict["rnd_state_dict"], self.storage.num_envs, strict)
        except (RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())  # torch's messages have many lines
            raise CheckpointError(f"The checkpoint does not fit the networks of this run: {reason}") from error
        if parts.get("iteration"):
            if is_own:
                self.explorer.load_state_dict(loaded_dict["explorer"])
            self.annealing.load_state_dict(loaded_dict["annealing"])
            self.iteration = loaded_dict["counters"]["iteration"]
            self.num_updates = loaded_dict["counters"]["num_updates"]
            self.last_saved_iteration = self.iteration
            # An empty replay is filled as in the beginning.
            self._learns_after = self.iteration + self.cfg.training_start_iteration
        if has_replay:
            self._learns_after = loaded_dict["counters"]["learns_after"]
            self.storage.load_state_dict(loaded_dict["replay_state_dict"], with_generator=is_own)
        if not (has_replay and loaded_dict.get("env_continues", False)):
            self.storage.cut()
        # What the replay holds but the statistics have not seen: a runner that overlaps saves before they have.
        self._num_new_steps = loaded_dict["counters"].get("num_new_steps", 0) if has_replay else 0
        self._last_obs = self._last_actions = self._next_obs = None
        return bool(parts.get("iteration"))

    def broadcast_parameters(self) -> None:
        """Overwrite the parameters of every process by those of the first."""
        modules = (*self._models(), self.target_critic, *([] if self.average is None else [self.average.policy.mlp]))
        broadcast([*(tensor for module in modules for tensor in module.state_dict().values()), self.log_alpha.data])

    def reduce_parameters(self) -> None:
        """Average all gradients over the processes. :meth:`update` does so itself, before every optimizer step."""
        predictor = self.rnd.flat_parameters.gradient if self.rnd is not None else None
        networks = (self._actor_parameters.gradient, self._critic_parameters.gradient, predictor)
        for gradient in (*networks, self.log_alpha.grad):
            if gradient is not None:
                average(gradient, self.world_size)

    @classmethod
    def construct_algorithm(cls, obs: TensorDict, env: VecEnv, cfg: dict, device: str) -> SAC:
        """Build the algorithm from the configuration of a rsl_rl runner."""
        # Runners up to rsl_rl 5.4.2 read this key whatever the algorithm.
        cfg["algorithm"].setdefault("rnd_cfg", None)
        alg_cfg = SACCfg.from_dict(cfg["algorithm"], "algorithm.")
        check_device(device)
        check_device(alg_cfg.replay_device or device, "algorithm.replay_device")
        check_env(obs, env)
        if alg_cfg.reuse_cpu_memory and torch.device(device).type == "cpu":
            reuse_large_allocations()
        groups = resolve_groups(obs, cfg.setdefault("obs_groups", {}), alg_cfg)
        low, high = resolve_action_bounds(env, env.num_actions, alg_cfg.action_bounds, alg_cfg.largest_action)
        actor = build_actor(cfg.get("actor", {}), obs, groups, env.num_actions, low, high)
        critic = build_critic(cfg.get("critic", {}), obs, groups, env.num_actions)
        print(f"Actor Model: {actor}\nCritic Model: {critic}")
        processes = cfg.get("multi_gpu") or {"global_rank": 0, "world_size": 1}
        seed = rank_seed(cfg.get("seed") or 0, processes["global_rank"])
        storage = build_storage(alg_cfg, obs, groups, env, device, seed)
        symmetry = build_symmetry(alg_cfg.symmetry_cfg, env, low, high, device) if alg_cfg.symmetry_cfg else None
        rnd_args = (obs, groups, env, device, processes["world_size"])
        rnd = build_rnd(alg_cfg.rnd_cfg, *rnd_args) if alg_cfg.rnd_cfg else None
        opening = build_opening(alg_cfg, env, symmetry, device)
        return cls(actor, critic, storage, alg_cfg, device, cfg.get("multi_gpu"), symmetry, seed, rnd, opening)
