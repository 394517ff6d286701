"""Settings of a run: `sections` has the dataclasses that Hydra fills from conf/, `fields` the ways to declare one."""

from muzero.config.fields import require
from muzero.config.sections import (
    BACKENDS,
    Config,
    CurriculumConfig,
    EvaluationConfig,
    GameConfig,
    LearnerConfig,
    LoggingConfig,
    ModelConfig,
    PoolConfig,
    ReplayConfig,
    RuntimeConfig,
    SearchConfig,
    SelfPlayConfig,
    TrainConfig,
    cores,
    scheduled,
)

__all__ = [
    "BACKENDS",
    "Config",
    "CurriculumConfig",
    "EvaluationConfig",
    "GameConfig",
    "LearnerConfig",
    "LoggingConfig",
    "ModelConfig",
    "PoolConfig",
    "ReplayConfig",
    "RuntimeConfig",
    "SearchConfig",
    "SelfPlayConfig",
    "TrainConfig",
    "cores",
    "require",
    "scheduled",
]
