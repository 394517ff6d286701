"""Settings of a run: `Config` has all of them.

`sections`, `selfplay`, `evaluation` and `ppo` have the groups of settings that Hydra fills from conf/; `fields` has the
ways to declare a setting, `machine` the cores that a run may use.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from muzero.config.evaluation import PAST_SELF, EvaluationConfig
from muzero.config.fields import Section, number, require, scheduled, setting, text
from muzero.config.machine import cores
from muzero.config.ppo import PpoConfig
from muzero.config.sections import (
    BACKENDS,
    GameConfig,
    LearnerConfig,
    LoggingConfig,
    ModelConfig,
    ReplayConfig,
    RuntimeConfig,
    SearchConfig,
    TrainConfig,
)
from muzero.config.selfplay import CurriculumConfig, PoolConfig, SelfPlayConfig

__all__ = [
    "BACKENDS",
    "PAST_SELF",
    "Config",
    "CurriculumConfig",
    "EvaluationConfig",
    "GameConfig",
    "LearnerConfig",
    "LoggingConfig",
    "ModelConfig",
    "PoolConfig",
    "PpoConfig",
    "ReplayConfig",
    "RuntimeConfig",
    "SearchConfig",
    "SelfPlayConfig",
    "TrainConfig",
    "cores",
    "require",
    "scheduled",
]


@dataclass
class Config(Section):
    """All settings of a run."""

    seed: int = number(0, least=0, most=2**63 - 1, meaning="seed of all randomness")
    run_dir: str = text("", "directory of the run; empty for runs/GAME-VARIANT-HASH, equal for equal configurations")
    variant: str = text("baseline", "name of the variant; set by variant=NAME")
    exploit: str | None = setting(None, "agent, such as checkpoint:RUN, that all games are against; it never learns")
    game: GameConfig = field(default_factory=GameConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    selfplay: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    def player_counts(self) -> list[int]:
        """Numbers of players at the tables of self-play, in ascending order."""
        return sorted({self.game.players, *self.selfplay.players})

    def at_tables_for(self, players: int) -> Config:
        """Configuration of the run's part at tables for this number of players, with its share of tables and memory."""
        parts = len(self.player_counts())
        replay = replace(
            self.replay,
            megabytes=self.replay.megabytes / parts,
            keep_at_least=-(-self.replay.keep_at_least // parts),
        )
        selfplay = replace(self.selfplay, players=[], tables=self.selfplay.tables // parts)
        return replace(self, game=replace(self.game, players=players), selfplay=selfplay, replay=replay)

    def check_together(self) -> None:
        """See `Section`."""
        bots = bool(self.game.bots) or not self.evaluation.every
        require(bots, "game.bots", "at least one, or evaluation.every=0", self.game.bots)
        mixed, least = self.selfplay.players, self.runtime.workers * len(self.player_counts())
        inside = not mixed or self.game.players in mixed
        require(inside, "selfplay.players", f"game.players={self.game.players} among them, or none", mixed)
        expected = f"at least {least}, one per worker" + (" and number of players" if mixed else "")
        require(self.selfplay.tables >= least, "selfplay.tables", expected, self.selfplay.tables)
        one_step = self.selfplay.explore and self.learner.one_step_share  # the value after a random action is no target
        require(not one_step, "learner.one_step_share", "0 with selfplay.explore", self.learner.one_step_share)
        if self.train.algorithm == "ppo":
            self.ppo.check_run(self)
