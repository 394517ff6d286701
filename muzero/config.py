"""Configuration as dataclasses; Hydra fills them from conf/ and refuses keys that are not here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

BACKENDS = ("auto", "native", "eager", "compiled", "compiled_dynamic", "cuda_graphs")


def cores() -> int:
    """That this process may use: of a job, those it was given, not all of the machine."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return max(1, min(free, int(given))) if given.isdigit() else free


def require(good: bool, key: str, expected: str, value: Any) -> None:
    """Refuses a value, naming its key."""
    if not good:
        raise ValueError(f"{key}: expected {expected}, got {value!r}")


@dataclass
class ModelConfig:
    """The network. conf/model/*.yaml documents the choices of the presets.

    Attributes:
      latent: "flat", one vector (the paper); "slots", a vector per slot of the game and a global one.
      encoder: "transformer" over tokens (the paper); "columns", sets of blocks of slots, which does not change
        when blocks, or the slots of a block, trade places (needs latent=slots).
      layers, heads, width, feedforward: of the transformer.
      latent_dim: of the flat latent.
      slot_dim, player_dim, global_dim: of the slots latent: of a slot, of a player, and of the rest.
      slot_hidden: width of what is computed for each slot.
      hidden: width of the dynamics and prediction MLPs.
      action_dim: of the action embedding (flat).
      value_min, value_max, value_bins: support of the categorical value and reward heads.
      ignore: what the encoder does not read of an observation: names of groups, or group.field.
      ego: condition predictions on the player they are for (variant).
      outcome_heads: predict winner and ranks (variant).
    """

    latent: str = "slots"
    encoder: str = "columns"
    layers: int = 2
    heads: int = 4
    width: int = 64
    feedforward: int = 128
    latent_dim: int = 256
    slot_dim: int = 8
    player_dim: int = 16
    global_dim: int = 64
    slot_hidden: int = 16
    hidden: int = 128
    action_dim: int = 32
    value_min: float = -2.0
    value_max: float = 2.0
    value_bins: int = 21
    ignore: list[str] = field(default_factory=list)
    ego: bool = False
    outcome_heads: bool = False

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.latent in ("flat", "slots"), "model.latent", "flat or slots", self.latent)
        require(self.encoder in ("transformer", "columns"), "model.encoder", "transformer or columns", self.encoder)
        require(
            self.encoder != "columns" or self.latent == "slots",
            "model.encoder",
            "transformer with model.latent=flat (the columns encoder cannot tell the slots of one vector apart)",
            self.encoder,
        )
        for name in ("layers", "heads", "width", "feedforward", "latent_dim", "slot_dim", "player_dim", "global_dim"):
            require(getattr(self, name) >= 1, f"model.{name}", "1 or more", getattr(self, name))
        for name in ("slot_hidden", "hidden", "action_dim"):
            require(getattr(self, name) >= 1, f"model.{name}", "1 or more", getattr(self, name))
        require(self.width % self.heads == 0, "model.width", f"a multiple of heads ({self.heads})", self.width)
        require(self.value_bins >= 2, "model.value_bins", "2 or more", self.value_bins)
        require(self.value_min < self.value_max, "model.value_min", f"less than {self.value_max}", self.value_min)


@dataclass
class SearchConfig:
    """The search. See `mcts.Search` for what each setting does.

    Attributes:
      algorithm: "gumbel" or "puct".
      simulations: per decision.
      backup: "maxn" or "ego".
      leaves: selected per game and step.
      discount: of values one decision later.
      prior_temperature: the policy that a search starts from, at its root, is the network's to the power of 1 / this,
        except in evaluation. Above 1, what was once learned against an action fades unless searches confirm it.
      skip_forced: do not search where only one action is legal.
      bf16: run the network in bfloat16 (autocast, or the native kernel of that kind).
      backend: "native", the recurrent step in C++ (slots latents on a CPU); "compiled", through torch.compile, which
        takes half a minute at the start and pays for it soon; "compiled_dynamic", the same for any number of rows
        instead of full batches; "cuda_graphs", with CUDA graphs too (GPU only); "eager",
        as torch does it; "auto", native or else compiled.
      tree_threads: of a lane's trees.
      lanes: lanes that share the games, each with a thread of its own.
    """

    algorithm: str = "gumbel"
    simulations: int = 16
    backup: str = "maxn"
    leaves: int = 1
    discount: float = 0.997
    prior_temperature: float = 1.0
    pb_c_base: float = 19652.0
    pb_c_init: float = 1.25
    dirichlet_alpha: float = 0.3
    dirichlet_fraction: float = 0.25
    unvisited: str = "neutral"
    virtual_loss: float = 1.0
    max_considered: int = 8
    gumbel_scale: float = 1.0
    value_scale: float = 0.1
    maxvisit_init: float = 50.0
    rescale_values: bool = True
    skip_forced: bool = True
    bf16: bool = False
    backend: str = "eager"
    tree_threads: int = 1
    lanes: int = 1

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.algorithm in ("gumbel", "puct"), "search.algorithm", "gumbel or puct", self.algorithm)
        require(self.backup in ("maxn", "ego"), "search.backup", "maxn or ego", self.backup)
        require(self.unvisited in ("neutral", "lowest"), "search.unvisited", "neutral or lowest", self.unvisited)
        require(self.backend in BACKENDS, "search.backend", f"one of {', '.join(BACKENDS)}", self.backend)
        require(self.simulations >= 0, "search.simulations", "0 or more", self.simulations)
        for name in ("lanes", "tree_threads", "leaves", "max_considered"):
            require(getattr(self, name) >= 1, f"search.{name}", "1 or more", getattr(self, name))
        require(0 < self.discount <= 1, "search.discount", "more than 0, at most 1", self.discount)
        for name in ("prior_temperature", "pb_c_base", "dirichlet_alpha"):
            require(getattr(self, name) > 0, f"search.{name}", "more than 0", getattr(self, name))
        for name in ("dirichlet_fraction", "virtual_loss"):
            require(0 <= getattr(self, name) <= 1, f"search.{name}", "0 to 1", getattr(self, name))
        for name in ("pb_c_init", "gumbel_scale", "value_scale", "maxvisit_init"):
            require(getattr(self, name) >= 0, f"search.{name}", "0 or more", getattr(self, name))


@dataclass
class LearnerConfig:
    """The loss and the optimiser.

    Attributes:
      batch: windows per step.
      unroll: K, steps of the dynamics that a window is unrolled for.
      td_steps: n of the n-step returns.
      one_step_share: share of a value's target that is the newest network's value one decision later. It carries little
        luck, so that what one move achieves is learned from few games; the rest keeps values true to how games end.
      lr: learning rate of AdamW.
      warm_up_steps: over which the learning rate rises linearly.
      decay_steps: over which it falls to a tenth, by a cosine; 0 keeps it constant.
      weight_decay: of matrices.
      clip: largest norm of the gradient.
      value_weight, reward_weight, reconstruction_weight, consistency_weight: of these losses; the policy's weight is 1.
      winner_weight, rank_weight: from, to; they ramp over `ramp_iterations`.
      ramp_iterations: 0 for no ramp.
      ema: of the weights that self-play uses, per step, such as 0.999; 0 uses the newest weights.
      bf16: autocast.
      compile: through torch.compile.
      largest_loss: above which a run is stopped.
    """

    batch: int = 256
    unroll: int = 5
    td_steps: int = 10
    one_step_share: float = 0.0
    lr: float = 1e-3
    warm_up_steps: int = 100
    decay_steps: int = 0
    weight_decay: float = 1e-4
    clip: float = 5.0
    value_weight: float = 1.0
    reward_weight: float = 1.0
    reconstruction_weight: float = 0.1
    consistency_weight: float = 0.0
    winner_weight: list[float] = field(default_factory=lambda: [0.1, 0.5])
    rank_weight: list[float] = field(default_factory=lambda: [0.1, 0.25])
    ramp_iterations: int = 100
    ema: float = 0.0
    bf16: bool = False
    compile: bool = False
    largest_loss: float = 1e4

    def check(self) -> None:
        """Refuses impossible values by name."""
        for name in ("batch", "unroll", "td_steps"):
            require(getattr(self, name) >= 1, f"learner.{name}", "1 or more", getattr(self, name))
        for name in ("lr", "clip", "largest_loss"):
            require(getattr(self, name) > 0, f"learner.{name}", "more than 0", getattr(self, name))
        for name in ("warm_up_steps", "decay_steps", "weight_decay", "ramp_iterations"):
            require(getattr(self, name) >= 0, f"learner.{name}", "0 or more", getattr(self, name))
        weights = ("value", "reward", "reconstruction", "consistency")
        for name in (f"{weight}_weight" for weight in weights):
            require(getattr(self, name) >= 0, f"learner.{name}", "0 or more", getattr(self, name))
        for name in ("winner_weight", "rank_weight"):
            pair = list(getattr(self, name))
            require(len(pair) == 2 and min(pair) >= 0, f"learner.{name}", "two numbers, 0 or more: from, to", pair)
        require(0 <= self.one_step_share <= 1, "learner.one_step_share", "0 to 1", self.one_step_share)
        require(0 <= self.ema < 1, "learner.ema", "0 up to less than 1", self.ema)


@dataclass
class PaceConfig:
    """What of learner, replay and curriculum depends on the game rather than on the machine; presets refer to it.

    Attributes:
      td_steps, unroll, one_step_share: see `LearnerConfig`.
      consistency: its `consistency_weight`.
      memory: the replay's `window`.
      bots: the curriculum's `share`.
      bot_vs_bot, takeover_after, goal: see `CurriculumConfig`.
      tables, steps_per_iteration: of self-play.
    """

    td_steps: int = 10
    unroll: int = 4
    one_step_share: float = 0.0
    consistency: float = 0.0
    memory: float = 0.0
    bots: float = 0.0
    bot_vs_bot: float = 0.0
    takeover_after: float = 0.0
    goal: float = 1.0
    tables: int = 256
    steps_per_iteration: int = 96


@dataclass
class GameConfig:
    """The game.

    Attributes:
      name: of a game in `env.games()`.
      players: at a table.
      rules: rule set to play and evaluate by: a preset's name under `preset`, and options.
      training: options on top of it for self-play: rewards, shorter episodes.
      short_training: what `training` is in presets that train on single rounds; only the game knows its options, and
        whether a round alone teaches how to win a match.
      bots: the curriculum, and whom bot evaluation is against.
      held_out_bots: further bots for bot evaluation, not played against in training.
      pace: settings of learner and curriculum that suit the game, for presets.
      match_only_fields: parts of an observation that say how the match stands, for `model.ignore`: a network that
        trains on single rounds has seen only how a match begins.
    """

    name: str = ""
    players: int = 2
    rules: dict[str, Any] = field(default_factory=lambda: {"preset": "official"})
    training: dict[str, Any] = field(default_factory=dict)
    short_training: dict[str, Any] = field(default_factory=dict)
    bots: list[str] = field(default_factory=list)
    held_out_bots: list[str] = field(default_factory=list)
    pace: PaceConfig = field(default_factory=PaceConfig)
    match_only_fields: list[str] = field(default_factory=list)

    def rules_for_training(self) -> dict[str, Any]:
        """Rule set of self-play."""
        return {**self.rules, **self.training}

    def check(self) -> None:
        """Refuses what the environment refuses: names, counts, rules."""
        import env

        require(self.name in env.games(), "game.name", f"one of {', '.join(env.games())}", self.name)
        for key, rules in (("players", self.rules), ("rules", self.rules), ("training", self.rules_for_training())):
            try:
                tables = env.make(self.name, 1, self.players, rules)
            except ValueError as error:
                if ("num_players" in str(error)) == (key == "players"):
                    raise ValueError(f"game.{key}: {str(error).removeprefix('num_players: ')}") from None
        for key, names in (("bots", self.bots), ("held_out_bots", self.held_out_bots)):
            for name in names:
                try:
                    tables.bot(name)
                except ValueError as error:
                    raise ValueError(f"game.{key}: {error}") from None


@dataclass
class ReplayConfig:
    """What is kept to learn from.

    Attributes:
      megabytes: of memory.
      keep_share: share of all decisions so far that is kept, as long as they fit; 0 for as many as fit.
      keep_at_least: decisions that are kept whatever the keep_share.
      warm_up: decisions before learning begins.
      stratify: share of a batch drawn evenly over the phases.
      alpha, beta: exponents of priorities and importance weights.
      relabel: learn from games with their slots renamed at random, by the game's symmetries.
      reanalyse: share of the positions learned from that are searched again with fresh weights.
    """

    megabytes: float = 512.0
    keep_share: float = 0.0
    keep_at_least: int = 100_000
    warm_up: int = 20000
    stratify: float = 0.25
    alpha: float = 0.5
    beta: float = 1.0
    relabel: bool = False
    reanalyse: float = 0.0

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.megabytes > 0, "replay.megabytes", "more than 0", self.megabytes)
        require(self.warm_up >= 1, "replay.warm_up", "1 or more", self.warm_up)
        require(self.keep_at_least >= 1, "replay.keep_at_least", "1 or more", self.keep_at_least)
        for name in ("keep_share", "stratify", "reanalyse"):
            require(0 <= getattr(self, name) <= 1, f"replay.{name}", "0 to 1", getattr(self, name))
        for name in ("alpha", "beta"):
            require(getattr(self, name) >= 0, f"replay.{name}", "0 or more", getattr(self, name))


@dataclass
class CurriculumConfig:
    """Games against hand-written players.

    Attributes:
      share: of all games at the start, over all bots.
      goal: win rate (of two players) at which a bot has faded out.
      games_averaged: games over which a win rate is taken.
      bot_vs_bot: share of games at the start that bots play among themselves; it fades with the bot that is hardest to
        beat. What positions are worth can be learned from them, too, and they need no search.
      takeover_after: decisions on average after which the network takes all seats of a game among bots, each number of
        them as likely as chance would have it; 0 never. It then learns to go on from positions that it would not reach.
    """

    share: float = 0.3
    goal: float = 0.7
    games_averaged: int = 100
    bot_vs_bot: float = 0.0
    takeover_after: float = 0.0

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(0 <= self.share <= 1, "selfplay.curriculum.share", "0 to 1", self.share)
        require(0 < self.goal <= 1, "selfplay.curriculum.goal", "more than 0, at most 1", self.goal)
        require(self.games_averaged >= 1, "selfplay.curriculum.games_averaged", "1 or more", self.games_averaged)
        require(0 <= self.bot_vs_bot <= 1, "selfplay.curriculum.bot_vs_bot", "0 to 1", self.bot_vs_bot)
        good = self.takeover_after == 0 or self.takeover_after >= 1
        require(good, "selfplay.curriculum.takeover_after", "0, or 1 or more", self.takeover_after)


@dataclass
class PoolConfig:
    """Games against past versions of the network.

    Attributes:
      share: of all games.
      every: iterations between members.
      size: most members.
    """

    share: float = 0.3
    every: int = 20
    size: int = 20

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(0 <= self.share <= 1, "selfplay.pool.share", "0 to 1", self.share)
        require(self.every >= 1, "selfplay.pool.every", "1 or more", self.every)
        require(self.size >= 1, "selfplay.pool.size", "1 or more", self.size)


@dataclass
class SelfPlayConfig:
    """Self-play.

    Attributes:
      players: numbers of players to mix in one run, game.players among them; empty for that alone. Tables and replay
        are shared out evenly; a network for the most players serves all.
      tables: in lockstep, over all workers.
      games_per_iteration: games per iteration (all that end in the same step are taken), unless
        `steps_per_iteration` is set.
      steps_per_iteration: steps of all tables per iteration, whatever ends in them; 0 goes by `games_per_iteration`.
      simulations: per decision, as [iteration, number] pairs; empty for search.simulations throughout.
      temperature: of the choice among visits (puct), as [iteration, number] pairs.
      curriculum, pool: opponents other than the current network.
    """

    players: list[int] = field(default_factory=list)
    tables: int = 256
    games_per_iteration: int = 32
    steps_per_iteration: int = 0
    simulations: list[list[int]] = field(default_factory=list)
    temperature: list[Any] = field(default_factory=lambda: [[0, 1.0]])
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.tables >= 1, "selfplay.tables", "1 or more", self.tables)
        require(self.games_per_iteration >= 1, "selfplay.games_per_iteration", "1 or more", self.games_per_iteration)
        require(self.steps_per_iteration >= 0, "selfplay.steps_per_iteration", "0 or more", self.steps_per_iteration)
        check_schedule("selfplay.simulations", self.simulations, 1)
        check_schedule("selfplay.temperature", self.temperature, 0)
        self.curriculum.check()
        self.pool.check()
        bots = self.curriculum.share + self.curriculum.bot_vs_bot
        require(
            bots <= 1,
            "selfplay.curriculum.bot_vs_bot",
            f"at most {1 - self.curriculum.share:g}",
            self.curriculum.bot_vs_bot,
        )
        require(bots + self.pool.share <= 1, "selfplay.pool.share", f"at most {1 - bots:g}", self.pool.share)


@dataclass
class TrainConfig:
    """The loop.

    Attributes:
      mode: "sync", self-play and learning in turn, deterministic; "async", at the same time, each on half of the
        threads, with weights one iteration old.
      iterations: to make.
      minutes: after which the run ends, whatever its iteration; 0 for no limit.
      steps: of the learner per iteration.
      checkpoint_every: iterations.
      keep_every: iterations whose weights are kept for good, for matched comparisons.
    """

    mode: str = "sync"
    iterations: int = 2000
    minutes: float = 0.0
    steps: int = 96
    checkpoint_every: int = 10
    keep_every: int = 100

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.mode in ("sync", "async"), "train.mode", "sync or async", self.mode)
        for name in ("iterations", "steps", "checkpoint_every", "keep_every"):
            require(getattr(self, name) >= 1, f"train.{name}", "1 or more", getattr(self, name))
        require(self.minutes >= 0, "train.minutes", "0 or more", self.minutes)


@dataclass
class RuntimeConfig:
    """Who runs what where.

    Attributes:
      kind: "local", on this machine; "ray", in actors.
      device: of the learner: "auto" (cuda if there is one), "cpu", "cuda", "cuda:0", ...
      threads: of torch, 0 for all cores; local and async: the learner has half of them, self-play's process the rest.
      workers: ray: actors.
      worker_cpus, worker_gpus: ray: of each actor.
      worker_threads: ray: of torch in each actor.
      in_flight: ray, async: results waiting or under way per actor.
      address: ray: of a cluster, "auto" for the one this machine belongs to; "" starts one here.
    """

    kind: str = "local"
    device: str = "auto"
    threads: int = 0
    workers: int = 1
    worker_cpus: float = 1.0
    worker_gpus: float = 0.0
    worker_threads: int = 1
    in_flight: int = 1
    address: str = ""

    def check(self) -> None:
        """Refuses impossible values by name."""
        require(self.kind in ("local", "ray"), "runtime.kind", "local or ray", self.kind)
        for name in ("workers", "worker_threads", "in_flight"):
            require(getattr(self, name) >= 1, f"runtime.{name}", "1 or more", getattr(self, name))
        for name in ("threads", "worker_cpus", "worker_gpus"):
            require(getattr(self, name) >= 0, f"runtime.{name}", "0 or more", getattr(self, name))
        require(self.kind == "ray" or self.workers == 1, "runtime.workers", "1 with runtime=local", self.workers)


@dataclass
class EvaluationConfig:
    """Games against bots during training.

    Attributes:
      every: iterations; 0 for never.
      games: per bot, half (of two players) with seats swapped.
      simulations: per decision; 0 for the network's policy alone.
      seed: of the deals, which are the same every time.
    """

    every: int = 20
    games: int = 100
    simulations: int = 16
    seed: int = 1_000_003

    def check(self) -> None:
        """Refuses impossible values by name."""
        for name in ("every", "simulations", "seed"):
            require(getattr(self, name) >= 0, f"evaluation.{name}", "0 or more", getattr(self, name))
        require(self.games >= 1, "evaluation.games", "1 or more", self.games)


@dataclass
class LoggingConfig:
    """What is shown and where.

    Attributes:
      wandb: "disabled", "offline" or "online".
      project: of wandb.
      display: "auto" (live in a terminal, else lines), "lines" or "none".
      replays: self-played games per iteration (and worker) to keep in the run's directory.
    """

    wandb: str = "disabled"
    project: str = "belief-muzero"
    display: str = "auto"
    replays: int = 0

    def check(self) -> None:
        """Refuses impossible values by name."""
        modes = ("disabled", "offline", "online")
        require(self.wandb in modes, "logging.wandb", f"one of {', '.join(modes)}", self.wandb)
        require(self.replays >= 0, "logging.replays", "0 or more", self.replays)
        require(self.display in ("auto", "lines", "none"), "logging.display", "auto, lines or none", self.display)


@dataclass
class Config:
    """A run.

    Attributes:
      seed: of everything.
      run_dir: where it is kept; empty names it by the game, the variant and a hash of the configuration.
      variant: name of the variant, as +variant=NAME sets it.
    """

    seed: int = 0
    run_dir: str = ""
    variant: str = "baseline"
    game: GameConfig = field(default_factory=GameConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    selfplay: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    def player_counts(self) -> list[int]:
        """Numbers of players at the tables of self-play, rising."""
        return sorted({self.game.players, *self.selfplay.players})

    def at_tables_for(self, players: int) -> Config:
        """The part of the run that plays with so many players."""
        counts = self.player_counts()
        share = self.selfplay.tables // len(counts)
        return replace(
            self,
            game=replace(self.game, players=players),
            selfplay=replace(self.selfplay, players=[], tables=share),
            replay=replace(
                self.replay,
                megabytes=self.replay.megabytes / len(counts),
                keep_at_least=-(-self.replay.keep_at_least // len(counts)),
            ),
        )

    def check(self) -> None:
        """Refuses impossible values by name, before any work."""
        require(0 <= self.seed < 2**63, "seed", "0 to 2**63 - 1", self.seed)
        for part in vars(self).values():
            if hasattr(part, "check"):
                part.check()
        for players in self.selfplay.players:
            try:
                replace(self.game, players=players).check()
            except ValueError as error:
                raise ValueError(str(error).replace("game.players", "selfplay.players", 1)) from None
        import env
        from muzero.data.replay_buffer import megabytes_needed
        from muzero.model.encoders import groups_read
        from muzero.model.spec import GameSpec

        groups_read(GameSpec.of(self.game.name, self.game.players), self.model)
        for players in self.player_counts():
            spec = GameSpec.of(self.game.name, players)
            longest = int(env.make(self.game.name, 1, players, self.game.rules_for_training()).rules["max_decisions"])
            room = megabytes_needed(longest, players, spec.width, spec.num_actions, len(spec.phase_table.possible))
            room *= len(self.player_counts())
            expected = f"at least {room:.3g}, the room of a game of {longest} decisions (max_decisions)"
            require(self.replay.megabytes >= room, "replay.megabytes", expected, self.replay.megabytes)
        if self.replay.relabel:
            from muzero.data.augmentation import SlotPermutation

            SlotPermutation(self.game.name, self.game.players)
        someone = bool(self.game.bots) or not self.evaluation.every
        require(someone, "game.bots", "at least one, or evaluation.every=0", self.game.bots)
        mixed, least = self.selfplay.players, self.runtime.workers * len(self.player_counts())
        inside = not mixed or self.game.players in mixed
        require(inside, "selfplay.players", f"game.players={self.game.players} among them, or none", mixed)
        expected = f"at least {least}, one per worker" + (" and number of players" if mixed else "")
        require(self.selfplay.tables >= least, "selfplay.tables", expected, self.selfplay.tables)


def check_schedule(key: str, schedule: list[list[Any]], least: float) -> None:
    """Refuses anything but pairs with rising iterations from 0 on."""
    expected = f"[iteration, number] pairs, from iteration 0 on, numbers {least} or more"
    for pair in schedule:
        numbers = isinstance(pair, list | tuple) and all(isinstance(number, int | float) for number in pair)
        require(numbers and len(pair) == 2, key, expected, schedule)
    starts = [start for start, _ in schedule]
    rising = starts == sorted(set(starts)) and starts[:1] in ([], [0])
    require(rising and all(number >= least for _, number in schedule), key, expected, schedule)


def scheduled(schedule: list[list[Any]], iteration: int, otherwise: Any) -> Any:
    """The number that a schedule has reached."""
    reached = [number for start, number in schedule if start <= iteration]
    return reached[-1] if reached else otherwise
