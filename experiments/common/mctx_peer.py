"""mctx, DeepMind's search on JAX, with the same network as ours: a peer to compare speeds with. Needs the extra `mctx`.

The network is that of `muzero.model.network` with a flat latent, a transformer encoder and no ego conditioning (the
`paper` model as a baseline): the same layers and widths, and the weights of the torch network, so that `check` can
compare the two number by number. The search is for one player, so both networks compute the root player's values and
rewards alone in it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import mctx
import numpy as np
import torch
from jax import numpy as jnp
from numpy.typing import NDArray

from muzero.config import SearchConfig
from muzero.config.fields import require
from muzero.model.encoders import TransformerEncoder
from muzero.model.network import Network

Weights = dict[str, Any]
_TOLERANCE = 2e-3  # largest difference of numbers of size 1, after a transformer and MLPs in single precision
_TOLERANCE_BF16 = 0.2  # the same in bfloat16, which has three digits


class JaxNetwork:
    """`Network` in JAX, as pure functions of its weights.

    Args:
      network: torch network, whose weights are copied.
      bf16: whether to multiply in bfloat16, as torch does under autocast: sums and everything else in single precision.
    """

    def __init__(self, network: Network, bf16: bool = False) -> None:
        config = network.config
        require(config.latent == "flat", "model.latent", "flat", config.latent)
        require(config.encoder == "transformer", "model.encoder", "transformer", config.encoder)
        require(not config.ego, "model.ego", "false", config.ego)
        require(network.num_outcomes == 1, "model.chance", "none", config.chance)
        self.network, self.config, self.players = network, config, network.num_players
        self._tolerance = _TOLERANCE_BF16 if bf16 else _TOLERANCE
        encoder = network.representation
        assert isinstance(encoder, TransformerEncoder)
        self.embed = encoder.embed
        sizes = [g.count * fields for g, fields in zip(self.embed.groups, self.embed.fields, strict=True)]
        self.columns = [part.numpy() for part in torch.split(self.embed.columns, sizes)]
        self.shift, self.bins = self.embed.shift.numpy(), network.support.bins.numpy()
        # Layers multiply from the right in JAX, so their weights are stored the other way round.
        linear = {f"{name}.weight" for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)}
        linear |= {f"representation.blocks.layers.{i}.self_attn.in_proj_weight" for i in range(config.layers)}
        self.weights: Weights = {
            name: jnp.asarray((w.T if name in linear else w).detach().contiguous().numpy())
            for name, w in network.named_parameters()
        }
        if bf16:
            self.weights |= {name: self.weights[name].astype(jnp.bfloat16) for name in linear}

    def represent(self, weights: Weights, obs: Any) -> Any:
        """obs [B, W] -> latent [B, L]"""
        part = "representation"
        index = obs[:, : len(self.shift)].astype(jnp.int32) + self.shift
        tokens = [
            weights[f"{part}.embed.table"][index[:, columns].reshape(len(obs), g.count, fields)].sum(2)
            for g, fields, columns in zip(self.embed.groups, self.embed.fields, self.columns, strict=True)
        ]
        first = jnp.broadcast_to(weights[f"{part}.cls"], (len(obs), 1, self.config.width))
        x = jnp.concatenate([first, jnp.concatenate(tokens, 1) + weights[f"{part}.position"]], 1)
        for layer in range(self.config.layers):
            x = self._block(weights, f"{part}.blocks.layers.{layer}", x)
        return jnp.tanh(_linear(weights, f"{part}.to_rest.1", _norm(weights, f"{part}.to_rest.0", x[:, 0])))

    def _block(self, weights: Weights, name: str, x: Any) -> Any:
        """Pre-norm layer of a transformer: x [B, T, width] -> [B, T, width]"""
        heads = self.config.heads
        normed = _norm(weights, f"{name}.norm1", x)
        joint = _product(normed, weights[f"{name}.self_attn.in_proj_weight"])
        joint = joint + weights[f"{name}.self_attn.in_proj_bias"]
        query, key, value = jnp.split(joint.reshape(*x.shape[:2], 3 * heads, -1), 3, 2)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(x.shape)
        x = x + _linear(weights, f"{name}.self_attn.out_proj", mixed)
        hidden = _gelu(_linear(weights, f"{name}.linear1", _norm(weights, f"{name}.norm2", x)))
        return x + _linear(weights, f"{name}.linear2", hidden)

    def step(self, weights: Weights, latent: Any, action: Any) -> Any:
        """latent [B, L], action [B] -> next latent [B, L]"""
        x = jnp.concatenate([latent, weights["dynamics.action.weight"][action]], 1)
        x = _gelu(_linear(weights, "dynamics.body.0", x))
        x = _gelu(_linear(weights, "dynamics.body.2", x))
        return _norm(weights, "dynamics.norm", latent + _linear(weights, "dynamics.body.4", x))

    def predict(self, weights: Weights, latent: Any, to_play: Any, seats: int) -> tuple[Any, Any, Any]:
        """latent [B, L], to_play [B] -> policy logits [B, A], values and rewards of the first seats [B, seats]"""
        features = _norm(weights, "condition.norm", latent + weights["condition.current.weight"][to_play])
        bins = len(self.bins)

        def head(name: str, outputs: int | None = None) -> Any:
            hidden = _gelu(_linear(weights, f"{name}.0", features))
            return _product(hidden, weights[f"{name}.2.weight"][:, :outputs]) + weights[f"{name}.2.bias"][:outputs]

        value, reward = (
            jax.nn.softmax(head(name, seats * bins).reshape(len(latent), seats, bins)) @ self.bins
            for name in ("value", "reward")
        )
        return head("policy.head"), value, reward

    def check(self, obs: NDArray[np.int16]) -> float:
        """Compare with torch: latents, next latents and predictions. Returns the largest difference.

        Raises:
          ValueError: the two do not compute the same.
        """
        network, rows = self.network, len(obs)
        action, to_play = np.arange(rows) % network.spec.num_actions, np.arange(rows) % self.players
        zeros = torch.zeros(rows, dtype=torch.int64)
        with torch.inference_mode():
            latent = network.represent(torch.from_numpy(obs))
            following, outputs = network.recurrent(
                latent, torch.from_numpy(action), zeros, torch.from_numpy(to_play), zeros, "maxn"
            )
        ours = [x.numpy() for x in (latent, following, outputs)]
        predict = jax.jit(partial(self.predict, seats=self.players))
        theirs = [jax.jit(self.represent)(self.weights, obs)]
        theirs.append(jax.jit(self.step)(self.weights, theirs[0], action))
        theirs.append(jnp.concatenate(predict(self.weights, theirs[1], to_play), 1))
        worst = max(
            float(np.abs(a - np.asarray(b)).max() / max(1.0, np.abs(a).max()))
            for a, b in zip(ours, theirs, strict=True)
        )
        require(worst <= self._tolerance, "peer", f"the same numbers as torch's within {self._tolerance}", worst)
        return worst


class MctxSearch:
    """Search of B positions by mctx, compiled.

    Args:
      network: network to search with.
      config: settings: algorithm, simulations, discount, exploration.
      obs: [B, W] observations of the players to move.
      legal: [B, A] masks of the legal actions.
    """

    def __init__(
        self, network: JaxNetwork, config: SearchConfig, obs: NDArray[np.int16], legal: NDArray[np.bool_]
    ) -> None:
        self.network, self.config = network, config
        self.simulations = len(obs) * config.simulations
        self._key, self._invalid = jax.random.PRNGKey(0), jnp.asarray(~legal)
        self._roots = jax.block_until_ready(jax.jit(self._evaluate_roots)(network.weights, jnp.asarray(obs)))
        self._search = jax.jit(self._from_roots)

    def _evaluate_roots(self, weights: Weights, obs: Any) -> tuple[Any, Any, Any]:
        """obs [B, W] -> latents [B, L], policy logits [B, A], values [B] of the players to move"""
        latent = self.network.represent(weights, obs)
        policy, value, _ = self.network.predict(weights, latent, jnp.zeros(len(obs), jnp.int32), 1)
        return latent, policy, value[:, 0]

    def _recurrent(self, weights: Weights, key: Any, action: Any, latent: Any) -> tuple[Any, Any]:
        latent = self.network.step(weights, latent, action)
        policy, value, reward = self.network.predict(weights, latent, jnp.zeros(len(action), jnp.int32), 1)
        discount = jnp.full(len(action), self.config.discount)
        found = mctx.RecurrentFnOutput(reward=reward[:, 0], discount=discount, prior_logits=policy, value=value[:, 0])
        return found, latent

    def _from_roots(self, weights: Weights, key: Any, roots: tuple[Any, Any, Any], invalid: Any) -> tuple[Any, Any]:
        """Actions [B] and policy targets [B, A]."""
        latent, policy, value = roots
        config = self.config
        search = partial(
            mctx.muzero_policy,
            dirichlet_fraction=config.dirichlet_fraction,
            dirichlet_alpha=config.dirichlet_alpha,
            pb_c_init=config.pb_c_init,
            pb_c_base=config.pb_c_base,
            temperature=1.0,
        )
        if config.algorithm == "gumbel":
            search = partial(
                mctx.gumbel_muzero_policy,
                max_num_considered_actions=config.max_considered,
                gumbel_scale=config.gumbel_scale,
            )
        found = search(
            params=weights,
            rng_key=key,
            root=mctx.RootFnOutput(prior_logits=policy, value=value, embedding=latent),
            recurrent_fn=self._recurrent,
            num_simulations=config.simulations,
            invalid_actions=invalid,
        )
        return found.action, found.action_weights

    def run(self) -> NDArray[np.float32]:
        """Search from roots that are encoded already; returns the policy targets [B, A]."""
        _, policy = self._search(self.network.weights, self._key, self._roots, self._invalid)
        return np.asarray(policy)


def _linear(weights: Weights, name: str, x: Any) -> Any:
    """x [..., inputs] -> [..., outputs]"""
    return _product(x, weights[f"{name}.weight"]) + weights[f"{name}.bias"]


def _product(x: Any, weight: Any) -> Any:
    """x [..., inputs], weight [inputs, outputs] -> [..., outputs] in single precision, multiplied in the weight's"""
    return jnp.matmul(x.astype(weight.dtype), weight, preferred_element_type=jnp.float32)


def _norm(weights: Weights, name: str, x: Any) -> Any:
    """LayerNorm, as torch computes it."""
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)
