"""Settings of proximal policy optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from muzero.config.fields import Section, flag, number, require

if TYPE_CHECKING:
    from muzero.config import Config


@dataclass
class PpoConfig(Section):
    """Settings of proximal policy optimisation (`train.algorithm=ppo`).

    Settings of the optimiser (lr and its schedule, weight_decay, clip, value_weight) are those of `learner`, the
    discount is `search.discount`, and an iteration has `selfplay.steps_per_iteration` steps of all tables.
    """

    KEY = "ppo"

    epochs: int = number(3, least=1, meaning="passes over the decisions of an iteration")
    minibatch: int = number(1024, least=1, meaning="decisions per step of the learner")
    gae_lambda: float = number(
        0.95,
        least=0,
        most=1,
        meaning="lambda of the advantages and value targets: below 1 they lean on the values of the seat's next own "
        "decisions, 0 on the next one alone",
    )
    clip: float = number(
        0.2, above=0, most=1, meaning="change of an action's probability, as a ratio, beyond which nothing is gained"
    )
    entropy: float = number(0.01, least=0, meaning="weight of the policy's entropy, which keeps it from settling early")
    normalise: bool = flag(True, "scale the advantages of an iteration to mean 0 and standard deviation 1")
    largest_kl: float = number(
        0.03,
        least=0,
        meaning="mean divergence from the policy that played at which an iteration learns no more; 0: never",
    )

    def check_run(self, config: Config) -> None:
        """Raises a ValueError for settings of a whole configuration that this algorithm would not learn or use."""
        given = {
            "search.simulations": (config.search.simulations, 0),
            "evaluation.simulations": (config.evaluation.simulations, 0),
            "selfplay.simulations": (config.selfplay.simulations, []),
            "selfplay.explore": (config.selfplay.explore, 0),
            "selfplay.judged_outcomes": (config.selfplay.judged_outcomes, 0),
            "model.outcome_heads": (config.model.outcome_heads, False),
            "model.card_beliefs": (config.model.card_beliefs, False),
            "model.points": (config.model.points, 0),
            "learner.ema": (config.learner.ema, 0),
            "learner.compile": (config.learner.compile, False),
        }
        for key, (value, only) in given.items():
            require(value == only, key, f"{str(only).lower()} with train.algorithm=ppo", value)
