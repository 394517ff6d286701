"""Program of one of the processes that share a learner in `test_peers.py`: steps on batches, then weights to a file."""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file

from muzero.config import LearnerConfig
from muzero.training.learner import Learner
from muzero.training.peers import Peers, end_process, join_peers
from tests.training.batches import a_batch, make, shaken

WINDOWS, STEPS = 16, 3


def make_learner(peers: Peers | None, latent: str, backend: str) -> Learner:
    """Learner with all losses and an average of the weights."""
    settings = LearnerConfig(one_step_share=0.3, consistency_weight=1.0, ema=0.9, backend=backend, batch=WINDOWS)
    network = shaken(make("belief_cards", latent, points=30.0))
    return Learner(network, settings, peers=peers)


def train(made: Learner) -> dict[str, torch.Tensor]:
    """Make steps; returns weights, their average, the TD errors and the report."""
    errors = [made.step(a_batch(seed, WINDOWS), seed) for seed in range(STEPS)]
    out = {f"weights/{name}": parameter.detach().clone() for name, parameter in made.network.named_parameters()}
    out |= {f"ema/{name}": tensor.clone() for name, tensor in (made.ema or {}).items()}
    out["td_error"] = torch.stack(errors)
    out["report"] = torch.tensor(list(made.report().values()))
    return out


def follow(path: str, latent: str, backend: str) -> None:
    """Body of one process: steps together with the other ones; rank 0 writes a file."""
    peers = join_peers(WINDOWS, torch.device("cpu"))
    assert peers is not None
    made = make_learner(peers, latent, backend)
    if peers.rank:  # other weights, which rank 0 replaces
        shaken(made.network)  # type: ignore[arg-type]
    made.share_state()
    if peers.rank:
        made.follow()
        peers.end_process()
    else:
        save_file(train(made), path)
        peers.stop()
        end_process(0)


if __name__ == "__main__":
    follow(*sys.argv[1:])
