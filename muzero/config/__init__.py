"""Settings of a run.

`sections` has the dataclasses that Hydra fills from conf/, `fields` the ways to declare a setting, `machine` the cores
that a run may use.
"""

from muzero.config.fields import require, scheduled
from muzero.config.machine import cores
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
