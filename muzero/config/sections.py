"""Settings of a run as dataclasses. Hydra fills them from conf/ and refuses keys that are not here.

A setting is declared once: its default, its range and its meaning are the arguments of `number`, `choice` or another
function of muzero/config/fields.py, and `Config.check` compares all values with their ranges. Checks that need a game,
a network or the machine are in muzero/training/preflight.py. Settings of the trees are declared in mcts/config.h.
"""

# ruff: noqa: RUF009  (the functions that declare lists and dicts return a field with a factory)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muzero.config.fields import (
    Section,
    choice,
    flag,
    listing,
    number,
    ramp,
    require,
    setting,
    text,
    tree_setting,
)
from muzero.config.parts import is_part_name

BACKENDS = ("auto", "native", "eager", "compiled", "compiled_dynamic", "cuda_graphs")


@dataclass
class ModelConfig(Section):
    """Settings of the network."""

    KEY = "model"

    latent: str = choice(
        "slots",
        ("flat", "slots"),
        "flat: one vector (the paper); slots: a vector per slot of the game and a global one",
    )
    network: str = setting(
        "muzero",
        "kind of network. muzero: this project's, made by the settings below; otherwise a name given to "
        "muzero.register_network, or python:MODULE:CLASS, a subclass of muzero.BaseNetwork",
        "muzero, a registered name or python:MODULE:CLASS",
        is_part_name,
    )
    encoder: str = setting(
        "columns",
        "transformer: over tokens (the paper); columns: unchanged when blocks of slots, or the slots of a "
        "block, trade places (needs latent=slots); otherwise a name given to muzero.register_encoder, or "
        "python:MODULE:CLASS",
        "transformer or columns, a registered name or python:MODULE:CLASS",
        is_part_name,
    )
    layers: int = number(2, least=1, meaning="layers of the transformer")
    heads: int = number(4, least=1, meaning="attention heads of the transformer")
    width: int = number(64, least=1, meaning="width of the encoder's tokens")
    feedforward: int = number(128, least=1, meaning="hidden units of the transformer's feed-forward blocks")
    latent_dim: int = number(256, least=1, meaning="size of the flat latent")
    slot_dim: int = number(8, least=1, meaning="size of a slot's vector in the slots latent")
    player_dim: int = number(16, least=1, meaning="size of a player's vector in the slots latent")
    global_dim: int = number(64, least=1, meaning="size of the global vector in the slots latent")
    slot_hidden: int = number(16, least=1, meaning="hidden units computed for each slot of the slots latent")
    hidden: int = number(128, least=1, meaning="hidden units of the MLPs in dynamics and heads")
    action_dim: int = number(32, least=1, meaning="size of the action embedding of the flat latent")
    value_min: float = setting(-2.0, "lower end of the support of the categorical value and reward heads")
    value_max: float = setting(2.0, "upper end of that support")
    value_bins: int = number(21, least=2, meaning="bins of that support")
    points: float = number(
        0.0, least=0, meaning="most points that the head of each seat's points to come tells apart; 0 for no such head"
    )
    ignore: list[str] = listing((), "parts of an observation that are not read: names of groups, or group.field")
    counts: bool = flag(True, "read the counts of unseen cards; false is the same as counts in model.ignore")
    chance: str = choice(
        "none",
        ("none", "game", "learned"),
        "what the dynamics are told of chance. none: nothing, one next position stands for all (the paper); game: the "
        "outcomes that the game declares, such as the card drawn, and the search has chance nodes; learned: codes that "
        "an encoder of the next observation learns to give, after every action (Stochastic MuZero)",
    )
    codes: int = number(32, least=2, most=63, meaning="number of codes with chance=learned")
    ego: bool = flag(False, "condition predictions on the player they are for; set by variant")
    ego_boards: bool = flag(True, "with ego and private hands: show each ego the own board first, whoever is to move")
    outcome_heads: bool = flag(False, "predict the winner and the ranks; set by variant")
    card_beliefs: bool = flag(False, "predict the cards that the player to move cannot see; set by variant")

    def __post_init__(self) -> None:
        if not self.counts and "counts" not in self.ignore:
            self.ignore = [*self.ignore, "counts"]

    def check_together(self) -> None:
        """See `Section`."""
        expected = "transformer with model.latent=flat (the columns encoder cannot tell the slots of one vector apart)"
        require(self.encoder != "columns" or self.latent == "slots", "model.encoder", expected, self.encoder)
        told = not self.card_beliefs or self.chance == "game"
        require(told, "model.card_beliefs", "false unless model.chance=game", self.card_beliefs)
        require(self.width % self.heads == 0, "model.width", f"a multiple of heads ({self.heads})", self.width)
        require(self.value_min < self.value_max, "model.value_min", f"less than {self.value_max}", self.value_min)


@dataclass
class SearchConfig(Section):
    """Settings of the search. Those of the trees are declared in mcts/config.h; docs/search.md explains them."""

    KEY = "search"

    algorithm: str = tree_setting("algorithm")
    simulations: int = tree_setting("simulations")
    backup: str = tree_setting("backup")
    leaves: int = tree_setting("leaves")
    discount: float = tree_setting("discount")
    pb_c_base: float = tree_setting("pb_c_base")
    pb_c_init: float = tree_setting("pb_c_init")
    dirichlet_alpha: float = tree_setting("dirichlet_alpha")
    dirichlet_fraction: float = tree_setting("dirichlet_fraction")
    unvisited: str = tree_setting("unvisited")
    virtual_loss: float = tree_setting("virtual_loss")
    max_considered: int = tree_setting("max_considered")
    gumbel_scale: float = tree_setting("gumbel_scale")
    value_scale: float = tree_setting("value_scale")
    maxvisit_init: float = tree_setting("maxvisit_init")
    rescale_values: bool = tree_setting("rescale_values")
    visit_trust: float = tree_setting("visit_trust")
    value_visits: float = tree_setting("value_visits")
    chance_source: str = tree_setting("chance_source")
    chance_choice: str = tree_setting("chance_choice")
    no_event: float = tree_setting("no_event")
    correct_luck: bool = tree_setting("correct_luck")
    tree_threads: int = tree_setting("tree_threads")
    prior_temperature: float = number(
        1.0,
        above=0,
        meaning="temperature of the network's policy at the root, except in evaluation; above 1, a judgement against "
        "an action fades unless searches confirm it",
    )
    merge: bool = flag(True, "search actions that are equivalent by the game's symmetries as one")
    skip_forced: bool = flag(True, "do not search where only one action is legal")
    bf16: bool = flag(False, "run the network in bfloat16 (autocast, or the native kernel for it)")
    auto_bf16: bool = flag(False, "set bf16 where the network's device multiplies in bfloat16 natively")
    backend: str = choice(
        "eager",
        BACKENDS,
        "how the network runs. eager: plain torch; native: recurrent step in C++ (CPU, slots latents of sizes "
        "that 16 divides); compiled: torch.compile, half a minute at the start; compiled_dynamic: the same for any "
        "number of rows; cuda_graphs: compiled with CUDA graphs (GPU only); auto: native, or else compiled",
    )
    lanes: int = number(1, least=1, meaning="lanes that share the games, each with a thread of its own")


@dataclass
class LearnerConfig(Section):
    """Settings of the losses and the optimiser."""

    KEY = "learner"

    batch: int = number(256, least=1, meaning="windows per step")
    unroll: int = number(5, least=1, meaning="K: steps of the dynamics that a window is unrolled for")
    td_steps: int = number(10, least=1, meaning="n of the n-step returns, in decisions; used if td_lambda is 1")
    td_lambda: float = number(
        1.0,
        least=0,
        most=1,
        meaning="below 1, value targets are lambda returns to the end of the episode: the smaller, the more they lean "
        "on the search values of the next decisions, and the less luck they carry",
    )
    one_step_share: float = number(
        0.0,
        least=0,
        most=1,
        meaning="share of a value target that is the newest network's value one decision later: it carries little "
        "luck, so a move's effect is learned from few games; the rest ties values to how games end",
    )
    lr: float = number(1e-3, above=0, meaning="learning rate of AdamW")
    warm_up_steps: int = number(100, least=0, meaning="steps over which the learning rate rises linearly")
    decay_steps: int = number(
        0, least=0, meaning="steps over which the learning rate falls to a tenth, along a cosine; 0 keeps it constant"
    )
    weight_decay: float = number(1e-4, least=0, meaning="weight decay of matrices")
    clip: float = number(5.0, above=0, meaning="largest norm of the gradient")
    value_weight: float = number(1.0, least=0, meaning="weight of the value loss; that of the policy loss is 1")
    reward_weight: float = number(1.0, least=0, meaning="weight of the reward loss")
    reconstruction_weight: float = number(
        0.1, least=0, meaning="weight of reading the visible cards back from imagined positions"
    )
    consistency_weight: float = number(
        0.0, least=0, meaning="weight of imagined latents being equal to those of the positions that came"
    )
    winner_weight: list[float] = ramp(0.1, 0.5, "weight of the winner loss")
    rank_weight: list[float] = ramp(0.1, 0.25, "weight of the rank loss")
    points_weight: float = number(0.5, least=0, meaning="weight of the loss of the points to come (model.points)")
    afterstate_weight: float = number(
        0.5,
        least=0,
        meaning="weight of values and rewards of afterstates, whose chance event is not told (model.chance)",
    )
    cards_weight: float = number(0.5, least=0, meaning="weight of the beliefs about hidden cards (model.card_beliefs)")
    outcome_weight: float = number(0.5, least=0, meaning="weight of the outcomes of chance events, or of codes")
    ramp_iterations: int = number(
        100, least=0, meaning="iterations over which the winner and rank weights go from start to end; 0: at once"
    )
    ema: float = number(
        0.0,
        least=0,
        below=1,
        meaning="decay per step of the weight average that self-play uses, such as 0.999 (at first the average is "
        "over a tenth of the steps); 0 uses the newest weights",
    )
    backend: str = choice(
        "auto",
        ("auto", "native", "torch"),
        "code that computes gradients: native (C++ on a CPU), torch, or auto: native where it supports the network",
    )
    bf16: bool = flag(False, "compute the losses in bfloat16 (autocast)")
    auto_bf16: bool = flag(False, "set bf16 where torch computes and its device multiplies in bfloat16 natively")
    compile: bool = flag(False, "compute the losses through torch.compile: minutes at the start")
    largest_loss: float = number(1e4, above=0, meaning="total loss above which a run is stopped as diverged")


@dataclass
class GameConfig(Section):
    """Settings of the game."""

    KEY = "game"

    name: str = text("", "name of a game in env.games()")
    players: int = setting(2, "players at a table")
    rules: dict[str, Any] = setting(
        {"preset": "official"},
        "rule set to play and evaluate by: the name of one under `preset`, and changes of its options",
    )
    training: dict[str, Any] = setting({}, "rule options added for self-play: rewards, shorter episodes")
    utility: str = choice(
        "round",
        ("round", "match"),
        "what the end of a round pays in training on single rounds, beside round_reward. round: 1 for the fewest "
        "points, -1 for others; match: the chance to win the match from the new standing, as a number from -1 to 1, "
        "fitted at the start to rounds of bots (wants initial_scores=played, and scores that the network reads)",
    )
    bots: list[str] = listing((), "bots of the curriculum, and opponents of bot evaluation")
    held_out_bots: list[str] = listing((), "further opponents of bot evaluation, not met in training")

    def rules_for_training(self) -> dict[str, Any]:
        """Rule set of self-play."""
        return {**self.rules, **self.training}


@dataclass
class ReplayConfig(Section):
    """Settings of the replay buffer."""

    KEY = "replay"

    megabytes: float = number(512.0, above=0, meaning="memory of the replay buffer")
    keep_share: float = number(
        0.0, least=0, most=1, meaning="share of all decisions so far that is kept, if they fit; 0 keeps all that fit"
    )
    keep_at_least: int = number(100_000, least=1, meaning="decisions that are kept whatever keep_share says")
    warm_up: int = number(20_000, least=1, meaning="decisions in the buffer before learning begins")
    stratify: float = number(0.25, least=0, most=1, meaning="share of a batch drawn evenly over the game's phases")
    alpha: float = number(0.5, least=0, meaning="exponent of the priorities; 0 draws windows uniformly")
    beta: float = number(1.0, least=0, meaning="exponent of the importance weights")
    relabel: bool = flag(False, "permute slots at random by the game's symmetries; the columns encoder gains nothing")
    reanalyse: float = number(
        0.0, least=0, most=1, meaning="share of the positions learned from that are searched again with fresh weights"
    )


@dataclass
class TrainConfig(Section):
    """Settings of the training loop."""

    KEY = "train"

    algorithm: str = choice(
        "muzero",
        ("muzero", "ppo"),
        "muzero: search, a learned model and a replay buffer; ppo: policy gradients without any of them, with the "
        "settings under ppo; set by variant",
    )
    mode: str = choice(
        "sync",
        ("sync", "async"),
        "sync: self-play and learning in turn, deterministic; async: at the same time, each on half of the "
        "threads, self-play with weights one iteration old",
    )
    iterations: int = number(2000, least=1, meaning="iterations of the run")
    minutes: float = number(0.0, least=0, meaning="minutes after which the run ends, if that comes first; 0: no limit")
    steps: int = number(96, least=1, meaning="muzero: steps of the learner per iteration")
    checkpoint_every: int = number(10, least=1, meaning="iterations between checkpoints")
    keep_every: int = number(
        100, least=1, meaning="iterations between weights that are kept for good, for matched comparisons"
    )
    init: str = text(
        "",
        "weights that a new run starts with: checkpoint:RUN, policy:PATH or agent:NAME, of the same game and network; "
        "its optimiser, games and counters are not taken over; empty for random weights",
    )


@dataclass
class RuntimeConfig(Section):
    """Settings of processes and devices."""

    KEY = "runtime"

    kind: str = choice("local", ("local", "ray"), "local: on this machine; ray: self-play in Ray actors")
    device: str = text("auto", "device of the learner: auto (cuda if there is one), cpu, cuda, cuda:0, ...")
    threads: int = number(
        0,
        least=0,
        meaning="threads of torch in the learner's process, 0 for all cores; with runtime=local train=async the "
        "learner has half of them and self-play the rest",
    )
    workers: int = number(1, least=1, meaning="ray: number of actors")
    worker_cpus: float = number(1.0, least=0, meaning="ray: cores of each actor")
    worker_gpus: float = number(0.0, least=0, meaning="ray: GPUs of each actor; actors share one by fractions")
    worker_threads: int = number(1, least=1, meaning="ray: threads of torch in each actor")
    in_flight: int = number(1, least=1, meaning="ray with train=async: requests waiting or under way per actor")
    address: str = text(
        "", "ray: address of a cluster; auto for the one this machine belongs to; empty starts one here"
    )
    dashboard: int = number(
        0,
        least=0,
        most=65535,
        meaning="ray: port of Ray's dashboard, such as 8265, which only this machine can reach; 0 for no dashboard",
    )

    def check_together(self) -> None:
        """See `Section`."""
        require(self.kind == "ray" or self.workers == 1, "runtime.workers", "1 with runtime=local", self.workers)
        mine = self.kind == "ray" and not self.address
        hint = "0, unless runtime=ray starts Ray here (for a cluster: RAY_DASHBOARD in slurm/config.sh)"
        require(mine or self.dashboard == 0, "runtime.dashboard", hint, self.dashboard)


@dataclass
class LoggingConfig(Section):
    """Settings of display and logs."""

    KEY = "logging"

    wandb: str = choice(
        "disabled",
        ("disabled", "offline", "online"),
        "use of wandb; online falls back to offline without key or network",
    )
    project: str = text("belief-muzero", "project in wandb")
    entity: str = text("", "team or user in wandb that the project belongs to; empty for your default")
    group: str = text("", "group of the run in wandb; empty: the study or sweep that it belongs to, else its variant")
    job_type: str = text("train", "type of the run in wandb")
    tags: list[str] = listing((), "tags of the run in wandb, such as [ablation,night]")
    notes: str = text("", "notes of the run in wandb")
    artifacts: bool = flag(False, "wandb: upload the newest weights and the game records as artifacts at the end")
    tensorboard: bool = flag(False, "write event files for TensorBoard to tensorboard/ in the run directory")
    display: str = choice("auto", ("auto", "lines", "none"), "auto: live in a terminal, otherwise a line per iteration")
    records: int = number(
        0,
        least=0,
        meaning="self-played games per iteration, worker and number of players to keep as game records in records/",
    )
    objective: str = text(
        "mean_win_rate", "figure of metrics.jsonl, such as losses.total, whose last value a sweeper of Hydra is given"
    )
