"""The simulator (search with the real rules and rollouts) against every hand-written player, in paired-deal rounds.

    python experiments/simulator_vs_bots.py --rounds 1000 --simulations 128

Writes JSON and Markdown to experiments/results/simulator_vs_bots. Runs again from where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import env
from muzero.agents.agents import Bot
from muzero.agents.simulator import Simulator
from muzero.matches.paired_games import Counter, paired_games


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="skyjo", choices=env.games())
    parser.add_argument("--rounds", type=int, default=1000, help="per opponent, half of them with seats swapped")
    parser.add_argument("--simulations", type=int, default=128, help="imagined worlds per decision")
    parser.add_argument("--bot", default="greedy", help="plays the imagined worlds out")
    parser.add_argument("--opponents", nargs="*", help="by default all bots of the game")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("experiments/results/simulator_vs_bots"))
    options = parser.parse_args()
    settings = {k: getattr(options, k) for k in ("game", "rounds", "simulations", "bot", "seed")}
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    if results.get("settings") != settings:
        results = {"settings": settings, "opponents": {}}
    for name in options.opponents or list(env.make(options.game).bots):
        if name in results["opponents"]:
            continue
        started = time.perf_counter()
        agent = Simulator(options.simulations, options.bot, threads=options.threads)
        games = paired_games(
            agent,
            Bot(name),
            options.rounds // 2,
            game=options.game,
            rules={"episode": "round"},
            seed=options.seed,
            threads=options.threads,
            count=teller(name),
        )
        low, high = games.wilson()
        results["opponents"][name] = {
            "rounds": len(games.scores_a),
            "win_rate": games.win_rate,
            "wilson_low": low,
            "wilson_high": high,
            "mean_score": float(games.scores_a.mean()),
            "mean_score_opponent": float(games.scores_b.mean()),
            "truncated": int(games.truncated.sum()),
            "seconds": time.perf_counter() - started,
        }
        file.write_text(json.dumps(results, indent=1))
        print(f"\r{name}: {games.win_rate:.3f} [{low:.3f}, {high:.3f}]")
    (options.out / "results.md").write_text(markdown(results))


def teller(name: str) -> Counter:
    """Says how many rounds are over."""
    over = 0

    def tell(ended: int, _: float) -> None:
        nonlocal over
        over += ended
        print(f"\r{name}: {over} rounds", end="", flush=True)

    return tell


def markdown(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """The table for people."""
    settings = results["settings"]
    lines = [
        f"Simulator with {settings['simulations']} worlds per decision, played out by `{settings['bot']}`, "
        f"in paired-deal rounds (seed {settings['seed']}).",
        "",
        "| opponent | rounds | win rate | 95 % Wilson | mean score | opponent's |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in results["opponents"].items():
        lines.append(
            f"| {name} | {row['rounds']} | {row['win_rate']:.3f} | {row['wilson_low']:.3f} to {row['wilson_high']:.3f} "
            f"| {row['mean_score']:.1f} | {row['mean_score_opponent']:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
