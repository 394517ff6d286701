"""Linear probes of the latents of trained networks: Figure 8 of the SkyNet paper, with the best possible result.

    python -m experiments.latent_probes --runs runs/baseline-0 runs/belief-0 --games 150 --out results/latent_probes

Each network plays an equal share of the games, in all seats, without search and at temperature 1. All networks are
probed on the positions of all games: the representations differ, not the data. The representations are the latent and,
with ego conditioning, the latent after conditioning (with the player to move as the ego). Positions are seen from the
seat of the player to move, so the added embeddings are the same everywhere: the two differ only by the LayerNorm.

    face_down_cards        number of own face-down cards
    deck_size              cards in the draw pile
    visible_sum            sum of own face-up cards
    game_winner            own share of the win
    opponent_hidden_sum    sum of the others' face-down cards
    own_hidden_sum         sum of own face-down cards
    true_score_advantage   mean sum of all cards of the others, minus own sum

Probes are ridge regressions with 5-fold cross-validation; all positions of a game are in the same fold, and the penalty
is chosen on one of the training folds. R2 is the mean over folds. The exact posterior mean (face-down cards are uniform
draws from the unseen cards) is the best prediction of hidden sums from an observation: its R2 is the ceiling. A second
probe, a linear softmax, predicts the distribution of a face-down card; its KL divergence from the exact belief is
compared with that of a constant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.progress import track

import env
from experiments import common
from experiments.common import Row, Run
from muzero.agents.agent_spec import AgentSpec, load_network, trained_for
from muzero.agents.agents import Policy, Situation
from muzero.config.fields import require
from muzero.matches.match_config import require_same_rules
from muzero.model.network import Network
from muzero.model.spec import GameSpec
from muzero.runs import plot_style
from muzero.runs.plot_style import styled

GAME = "skyjo"  # game whose cards the features describe
OBSERVABLE = ("face_down_cards", "deck_size", "visible_sum", "game_winner")
HIDDEN = ("opponent_hidden_sum", "own_hidden_sum", "true_score_advantage")
FEATURES = OBSERVABLE + HIDDEN
HATCHES = ("", "///", "...", "xxx", "++")  # of bars, one per representation
FOLDS = 5
PENALTIES = 10.0 ** np.arange(-1, 7)
SOFTMAX_PENALTIES = (1e-4, 1e-2, 1.0)
VALUES = np.arange(-2, 13)  # card values; a card's code is its value + 3
ZERO = 3  # code of a card worth 0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Positions:
    """Positions of many games, one per decision.

    Attributes:
      obs: [N, W] observations of the player to move.
      game: [N] number of the game that each position is from.
      features: [N, 7] true values of `FEATURES`.
      expected: [N, 7] exact posterior means of the features; NaN for the winner.
      belief: [N, 15] exact distribution of a face-down card's value; NaN where there is no such card.
    """

    obs: NDArray[np.int16]
    game: NDArray[np.int64]
    features: Floats
    expected: Floats
    belief: Floats


# ---- positions -------------------------------------------------------------------------------------------------------


class Reader:
    """Computes features of positions from observations and from the hidden cards."""

    def __init__(self, tables: env.VecEnv) -> None:
        groups = {group.name: group for group in GameSpec.of_tables(tables).groups}
        board, overall = groups["board"], groups["global"]
        self.players = tables.num_players
        self.board = slice(board.offset, board.offset + board.count * len(board.fields))
        self.shape = (self.players, board.count // self.players, len(board.fields))
        self.visibility, self.value = board.fields.index("visibility"), board.fields.index("value")
        self.deck = overall.offset + overall.fields.index("deck_size")

    def read(self, tables: env.VecEnv, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Features [N, 7], posterior means [N, 7] and beliefs [N, 15] at tables `rows`; the winner is still unknown."""
        obs, mover = tables.obs[rows], tables.to_play[rows].astype(np.int64)
        board = obs[:, self.board].reshape(-1, *self.shape).astype(np.int64)
        down, up = board[..., self.visibility] == 0, board[..., self.visibility] == 1  # (N, P, cells)
        truth = np.array([tables.inspect(row)["boards"] for row in rows.tolist()]).reshape(down.shape)
        seats = (mover[:, None] + np.arange(self.players)) % self.players  # seats in the order of the observation
        cards = truth[np.arange(len(rows))[:, None], seats] - ZERO
        counts = tables.unseen_counts(tables.to_play)[rows, 0].astype(np.float64)
        with np.errstate(invalid="ignore"):
            belief = np.where(down.any((1, 2))[:, None], counts / counts.sum(1, keepdims=True), np.nan)
        mean = np.nan_to_num(belief @ VALUES)
        visible = (cards * up).sum(2)
        deck = obs[:, self.deck]
        actual = self._features(down.sum(2), deck, visible, (cards * down).sum(2))
        expected = self._features(down.sum(2), deck, visible, down.sum(2) * mean[:, None])
        return actual, expected, belief

    def _features(self, down: Any, deck: Any, visible: Any, hidden: Any) -> Floats:
        """Features from counts and sums [N, P], the player to move first."""
        total = visible + hidden
        advantage = total[:, 1:].mean(1) - total[:, 0]
        winner = np.full(len(down), np.nan)
        columns = (down[:, 0], deck, visible[:, 0], winner, hidden[:, 1:].sum(1), hidden[:, 0], advantage)
        return np.stack([np.asarray(column, np.float64) for column in columns], 1)


def gather(networks: Sequence[Network], games: int, rules: dict[str, Any], seed: int) -> Positions:
    """Plays the games and collects the position of every decision."""
    seats = networks[0].num_players
    tables = env.make(GAME, games, seats, rules, seed, auto_reset=False)
    reader, owner = Reader(tables), np.arange(games) % len(networks)
    agents = [Policy(network, temperature=1.0) for network in networks]
    parts: list[tuple[NDArray[Any], ...]] = []
    while not tables.done.all():
        rows = np.flatnonzero(~tables.done)
        parts.append((tables.obs[rows], rows, tables.to_play[rows].astype(np.int64), *reader.read(tables, rows)))
        actions = np.full(games, env.SKIP, np.int64)
        for number, agent in enumerate(agents):
            mine = rows[owner[rows] == number]
            if len(mine):
                actions[mine] = agent.act(Situation.at(tables, mine, seed))
        tables.step(actions)
    obs, game, mover, features, expected, belief = (np.concatenate(column) for column in zip(*parts, strict=True))
    best = tables.ranks == 1
    features[:, FEATURES.index("game_winner")] = (best / best.sum(1, keepdims=True))[game, mover]
    return Positions(obs, game, features, expected, belief)


@torch.inference_mode()
def representations(network: Network, obs: NDArray[np.int16]) -> dict[str, Floats]:
    """Representations [N, L] of observations by a network, by name."""
    found: dict[str, list[torch.Tensor]] = {}
    device = next(network.parameters()).device
    for part in torch.split(torch.from_numpy(obs), 4096):
        latent = network.represent(part.to(device))
        found.setdefault("latent", []).append(latent.float().cpu())
        if network.config.ego:
            _, rest = network.trunk.split(latent)
            first = network.seats[:1]
            conditioned = network.condition(rest, first[None], first, network.num_players)[:, 0]
            boards = latent[:, : latent.shape[1] - rest.shape[1]]
            found.setdefault("conditioned", []).append(torch.cat([boards, conditioned], 1).float().cpu())
    return {name: torch.cat(parts).double().numpy() for name, parts in found.items()}


# ---- probes ----------------------------------------------------------------------------------------------------------


def folds_of(game: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Fold [N] of each position; all positions of a game are in the same one."""
    games = int(game.max()) + 1
    require(games >= FOLDS, "--games", f"{FOLDS} or more, one for each fold", games)
    fold = np.empty(games, np.int64)
    fold[np.random.default_rng(seed).permutation(games)] = np.arange(games) % FOLDS
    return fold[game]


class Ridge:
    """Ridge regressions of several targets for any penalties, from one decomposition."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.mean, self.scale = x.mean(0), x.std(0)
        self.scale[self.scale < 1e-9] = 1.0
        self.center = y.mean(0)
        z = (x - self.mean) / self.scale
        values, self.vectors = np.linalg.eigh(z.T @ z)
        self.values = values.clip(min=0)
        self.moment = self.vectors.T @ (z.T @ (y - self.center))

    def predict(self, x: Floats, penalty: Any) -> Floats:
        """Predictions [N, targets] for x [N, L], with one penalty for all targets or one for each."""
        weights = self.vectors @ (self.moment / (self.values[:, None] + penalty))
        return np.asarray((x - self.mean) / self.scale @ weights + self.center)


def r_squared(y: Floats, predicted: Floats) -> Floats:
    """R2 [targets] of predictions [N, targets]; NaN for a target that does not vary."""
    rest, total = ((y - predicted) ** 2).sum(0), ((y - y.mean(0)) ** 2).sum(0)
    return np.where(total > 0, 1 - rest / np.where(total > 0, total, 1), np.nan)


def probe(x: Floats, y: Floats, fold: NDArray[np.int64]) -> Floats:
    """R2 [folds, targets] of cross-validated ridge regressions."""
    scores = []
    for test in range(FOLDS):
        check = (test + 1) % FOLDS
        train, valid = (fold != test) & (fold != check), fold == check
        inner = Ridge(x[train], y[train])
        errors = [((inner.predict(x[valid], penalty) - y[valid]) ** 2).sum(0) for penalty in PENALTIES]
        best = PENALTIES[np.argmin(errors, 0)]
        held = fold == test
        scores.append(r_squared(y[held], Ridge(x[~held], y[~held]).predict(x[held], best)))
    return np.array(scores)


def card_probe(x: Floats, belief: Floats, fold: NDArray[np.int64]) -> tuple[float, float]:
    """Mean KL divergence from the exact belief of a cross-validated linear softmax, and of a constant."""
    known = ~np.isnan(belief).any(1)
    x, belief, fold = x[known], belief[known], fold[known]
    ours, constant = [], []
    for test in range(FOLDS):
        train, held, check = fold != test, fold == test, fold == (test + 1) % FOLDS
        mean, scale = x[train].mean(0), x[train].std(0)
        scale[scale < 1e-9] = 1.0
        z, q = torch.from_numpy((x - mean) / scale).float(), torch.from_numpy(belief).float()

        def divergence(model: torch.nn.Linear, rows: NDArray[np.bool_], z: torch.Tensor = z) -> Floats:
            return _divergence(belief[rows], model(z[rows]).log_softmax(1).double().numpy())

        inner = train & ~check
        tried = [divergence(_fit_softmax(z[inner], q[inner], weight), check).mean() for weight in SOFTMAX_PENALTIES]
        best = SOFTMAX_PENALTIES[int(np.argmin(tried))]
        ours.append(divergence(_fit_softmax(z[train], q[train], best), held))
        constant.append(_divergence(belief[held], np.log(belief[train].mean(0, keepdims=True) + 1e-12)))
    return float(np.concatenate(ours).mean()), float(np.concatenate(constant).mean())


def _fit_softmax(x: torch.Tensor, q: torch.Tensor, penalty: float) -> torch.nn.Linear:
    """Fits a linear softmax by L-BFGS: cross entropy plus L2 penalty."""
    model = torch.nn.Linear(x.shape[1], q.shape[1])
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), q) + penalty * model.weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return model.requires_grad_(False)


def _divergence(q: Floats, log_p: Floats) -> Floats:
    """KL(q || p) [N] in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(q > 0, q * (np.log(q) - log_p), 0.0).sum(1))


# ---- results ---------------------------------------------------------------------------------------------------------


def summarize(probes: Sequence[Row]) -> list[Row]:
    """Means over runs by variant and representation."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in probes:
        groups.setdefault((row["variant"], row["representation"]), []).append(row)
    return [
        {
            "variant": variant,
            "representation": name,
            "r2": {f: common.over_seeds([row["r2"][f] for row in found]) for f in FEATURES},
            "card_kl": common.over_seeds([row["card_kl"] for row in found]),
        }
        for (variant, name), found in groups.items()
    ]


def markdown(result: Row, command: str) -> str:
    """The results as a page of Markdown."""
    ceiling, rows = result["ceiling"], result["rows"]
    names = [f"{row['variant']}, {row['representation']}" for row in rows]
    lines = ["# Linear probes of the latents", "", f"    {command}", ""]
    lines += [
        f"{result['positions']:,} decisions of {result['games']} games; ridge regression, {FOLDS} folds by game.",
        "R2 is the mean over runs (with Student's 95 % interval if there are several); the ceiling is the R2 of the",
        "exact posterior mean.",
        "",
    ]
    cells = [
        [f, *(common.seeds(row["r2"][f]) for row in rows), "-" if ceiling[f] is None else f"{ceiling[f]:.3f}"]
        for f in FEATURES
    ]
    lines += [*common.table(["feature", *names, "ceiling"], cells), ""]
    lines += [
        "KL divergence (nats) from the exact belief about a face-down card to the prediction of a softmax probe:",
        "",
    ]
    texts = [[name, common.seeds(row["card_kl"], ".4f")] for name, row in zip(names, rows, strict=True)]
    lines += common.table(["representation", "KL"], [*texts, ["a constant", f"{result['card_kl_constant']:.4f}"]])
    published = common.published("figure_8_probes_r2")
    texts = [[f, *("-" if v is None else f"{v:.3f}" for v in values)] for f, *values in published]
    lines += ["", "Published (numbers in the paper's text about its Figure 8):", ""]
    lines += common.table(["feature", "baseline", "belief, ego-conditioned"], texts)
    return "\n".join(lines) + "\n"


@styled
def plot(result: Row) -> Figure:
    """Figure 8: one group of bars per feature, a colour per variant, with the ceiling."""
    figure, axes = plot_style.new_axes(plot_style.PAGE, 3.0)
    rows, places = result["rows"], np.arange(len(FEATURES))
    width = 0.8 / len(rows)
    hatches = dict(zip(dict.fromkeys(row["representation"] for row in rows), HATCHES, strict=False))
    for number, row in enumerate(rows):
        found = [row["r2"][f] for f in FEATURES]
        known = [one["low"] is not None for one in found]
        reach = [one["high"] - one["mean"] if there else np.nan for one, there in zip(found, known, strict=True)]
        axes.bar(
            places + (number + 0.5) * width - 0.4,
            [one["mean"] for one in found],
            width,
            yerr=reach if any(known) else None,
            color=plot_style.color_of(row["variant"]),
            hatch=hatches[row["representation"]],
            edgecolor="white",
            linewidth=0.5,
            error_kw={"linewidth": 0.8, "ecolor": plot_style.GREY},
            label=f"{row['variant']}, {row['representation']}",
        )
    for place, feature in enumerate(FEATURES):
        if result["ceiling"][feature] is not None:
            label = "exact posterior mean" if not place else ""
            ends = place - 0.42, place + 0.42
            axes.hlines(result["ceiling"][feature], *ends, color="black", linewidth=1.4, label=label)
    plot_style.reference_line(axes, len(OBSERVABLE) - 0.5, "left of it: can be observed", axis="x")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(xticks=places, ylabel="R² of linear probes")
    axes.set_xticklabels([feature.replace("_", "\n") for feature in FEATURES])
    axes.grid(visible=False, axis="x")
    several = any(row["r2"][f]["low"] is not None for row in rows for f in FEATURES)
    notes = [plot_style.line_handle("95 % interval over runs", marker="|", linewidth=0.8)] if several else []
    plot_style.legend_below(figure, [axes], notes)
    return figure


def load(run: Run, wanted: int | None) -> tuple[int, Network]:
    """Loads the network of a run's wanted or newest checkpoint; returns its iteration too."""
    iteration = common.iteration_of(run, wanted)
    spec = AgentSpec.of("policy", run.path, iteration=iteration)
    return iteration, load_network(spec, run.game, run.players)[0]


def experiment(options: argparse.Namespace, command: str) -> None:
    """Plays the games, fits the probes and writes the results."""
    runs = common.read_runs(options.runs)
    common.same_players(runs)
    require(
        runs[0].game == GAME, str(runs[0].path), f"a run of {GAME}, whose cards the features describe", runs[0].game
    )
    loaded = [load(run, options.iteration) for run in runs]
    trained = {str(run.path): trained_for(AgentSpec.of("policy", run.path)) or {} for run in runs}
    rules = trained[str(runs[0].path)].get("rules", {})
    require_same_rules(env.describe(GAME, runs[0].players, rules), trained)
    positions = gather([network for _, network in loaded], options.games, rules, options.seed)
    fold = folds_of(positions.game, options.seed)
    probes = []
    for run, (iteration, network) in zip(track(runs, "probing", console=None), loaded, strict=True):
        for name, x in representations(network, positions.obs).items():
            scores = probe(x, positions.features, fold)
            divergence, constant = card_probe(x, positions.belief, fold)
            probes.append(
                {
                    "run": str(run.path),
                    "variant": run.variant,
                    "iteration": iteration,
                    "representation": name,
                    "r2": dict(zip(FEATURES, np.nanmean(scores, 0).tolist(), strict=True)),
                    "r2_by_fold": dict(zip(FEATURES, scores.T.tolist(), strict=True)),
                    "card_kl": divergence,
                }
            )
    each = [r_squared(positions.features[fold == k], positions.expected[fold == k]) for k in range(FOLDS)]
    ceiling = {
        f: None if np.isnan(value) else float(value) for f, value in zip(FEATURES, np.mean(each, 0), strict=True)
    }
    result = {
        "command": command,
        "games": options.games,
        "positions": len(positions.obs),
        "ceiling": ceiling,
        "card_kl_constant": constant,
        "rows": summarize(probes),
        "probes": probes,
    }
    common.write_results(options.out, "latent_probes", result, markdown(result, command), plot(result))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    parser = common.make_parser(__doc__, "games to take positions from")
    common.add_run_options(parser)
    return common.run_experiment(parser, experiment, argv)


if __name__ == "__main__":
    sys.exit(main())
