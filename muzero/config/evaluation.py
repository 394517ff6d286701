"""Settings of evaluation during training."""

# ruff: noqa: RUF009  (the functions that declare lists and dicts return a field with a factory)

from __future__ import annotations

from dataclasses import dataclass

from muzero.config.fields import Section, listing, number

PAST_SELF = "past_self"  # name of an earlier version of the network in `evaluation.also`


@dataclass
class EvaluationConfig(Section):
    """Settings of evaluation during training."""

    KEY = "evaluation"

    every: int = number(20, least=0, meaning="iterations between bot evaluations; 0 for none")
    first: int = number(0, least=0, meaning="iteration of one more evaluation, so that there is one early; 0: none")
    games: int = number(100, least=1, meaning="games per bot; every deal is played from each seat")
    simulations: int = number(16, least=0, meaning="simulations per decision; 0 plays the network's policy alone")
    value_positions: int = number(128, least=0, meaning="positions where values and card beliefs are checked, or 0")
    seed: int = number(1_000_003, least=0, meaning="seed of the deals; every iteration that is evaluated has its own")
    also: list[str] = listing((), f"further opponents: agents, or {PAST_SELF}: the network of half as many iterations")
