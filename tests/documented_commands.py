"""Commands that README and documents show: how each is run in short form by a test, or why none runs it.

A key is a command as a reader would type it, without its comment. `Run` shortens it by options that the documents name;
words in capital letters (RUN, DIR, ...) stand for what the reader has, and the test puts its own there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A command that a test runs.

    Attributes:
      add: options that are added at its end.
      swap: pairs of text in it and what stands there instead.
      typed: lines that are typed into it.
      until: text after which it is stopped by Ctrl-C: for commands that do not end by themselves.
      fast: whether it belongs to the fast tests.
      says: text that it prints.
    """

    add: str = ""
    swap: tuple[tuple[str, str], ...] = ()
    typed: str = ""
    until: str = ""
    fast: bool = False
    says: str = ""


SLURM = "needs a SLURM cluster; tests/slurm runs it on one of its own"
GPU = "needs a GPU"
WANDB = "needs an account of wandb; tests/runs has the calls"
SETUP = "makes the environment that the tests run in"
PIP = "installs packages"
TRAINED = "needs a run that ends its rounds; tests/experiments/test_skyjo_planner.py runs it with a bot's positions"
CROSS = "needs a cross compiler; tests/test_distribution.py compiles the kernels where there is one"
SUITE = "runs the tests or checks that this test belongs to"
NAME = "names a command whose full form stands elsewhere in the documents"
PLACEHOLDER = "shows a form; its words are not values"
HOURS = "takes half an hour or more and has no short form"
MCTX = "needs jax and mctx, which make test-all installs"
LEVELS = "takes long; the same command runs for another game"
SOAK = "tests/experiments/test_soak.py runs it"
COMMITS = "builds another commit; tests/experiments has the parts"
EARLIER = "plays networks of earlier code, which are not here any more, as the page says"

TRAIN = "preset=smoke train.iterations=1 evaluation.every=0 +game.rules.episode=round +game.rules.max_decisions=60"
MATCH = "games=4 workers=1 rules.episode=round"
LAMA = "games=8 workers=1"
GAMES = "--games 4 --workers 1"
ONE_RUN = (("RUN...", "runs/first"), ("RUN", "runs/first"), ("DIR", "out"), ("runs/belief", "runs/first"))
TWO_RUNS = (("--a RUN...", "--a runs/first"), ("--b RUN...", "--b runs/second"), ("DIR", "out"))
BOTH = (("RUN...", "runs/first runs/second"), ("DIR", "out"))
PAPER = (("preset=paper", "preset=smoke"),)
TWO_HANDED = "preset=smoke train.iterations=1 evaluation.every=0 +game.rules.max_decisions=60"
MATCH_ROUND = (("runs/match ", "runs/first "), ("runs/round ", "runs/second "))
X_Y = (("runs/x", "runs/first"), ("runs/y", "runs/second"))


def training(*swap: tuple[str, str]) -> Run:
    """Training for one iteration of the smallest preset, in the directory of the command or one of its own."""
    return Run(TRAIN, swap=(*swap, *PAPER, ("preset=smoke ", "")))


COMMANDS: dict[str, Run | str] = {
    # ---- make
    ". .venv/bin/activate": Run(fast=True),
    "make": Run(says="make train", fast=True),
    "make train": Run(f'ARGS="{TRAIN}"'),
    'make train ARGS="preset=smoke"': Run(swap=(('"preset=smoke"', f'"{TRAIN}"'),)),
    "make report": Run("RUN=runs/first"),
    "make play": Run(typed="quit\n"),
    "make arena": Run("ARGS=port=PORT", until="http://127.0.0.1:"),
    "make setup": SETUP,
    "make setup CONSTRAINTS=": SETUP,
    "make setup CONSTRAINTS=requirements.lock": SETUP,
    "make clean setup CMAKE_ARGS=-DBELIEF_NATIVE=ON": SETUP,
    "make stubs": SETUP,
    "make lock": SETUP,
    "make test": SUITE,
    "make test-all": SUITE,
    'make test ARGS="tests/data/test_returns.py -k discount"': Run(),
    "make lint": SUITE,
    "make format": "rewrites the sources",
    "cmake -S . -B build/aarch64 -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 "
    "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DBELIEF_NATIVE_TESTS=ON": CROSS,
    "cmake --build build/aarch64": CROSS,
    "qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/fuzz_slot_trainer 3": CROSS,
    "make docs": PIP,
    "make sdist": "tests/test_distribution.py builds it",
    "make wheel": "tests/test_distribution.py builds it",
    "make fuzz": HOURS,
    "make fuzz-files": HOURS,
    "make bench": HOURS,
    "make bench ARGS=--record": HOURS,
    "make bench-gpu": GPU,
    ".ci/run": SUITE,
    # ---- training
    "python -m muzero.train": NAME,
    "python -m muzero.train +variant=belief game=skyjo": training(),
    "python -m muzero.train variant=belief": training(),
    "python -m muzero.train variant=belief preset=paper": training(),
    "python -m muzero.train variant=belief_cards": training(),
    "python -m muzero.train variant=ppo": training(),
    "python -m muzero.train variant=ppo +exploit=checkpoint:RUN": training(("RUN", "runs/first")),
    "python -m muzero.train --multirun variant=baseline,belief seed=0,1,2": Run(
        TRAIN, swap=(("seed=0,1,2", "seed=0"),)
    ),
    "python -m muzero.train --help": Run(says="learner.lr"),
    "python -m muzero.train game=kuhn preset=smoke": Run("train.iterations=1"),
    "python -m muzero.train --config-dir MINE game=house_rules preset=night variant=bold": Run(
        TRAIN.removeprefix("preset=smoke "), swap=(("MINE", "mine"),)
    ),
    "python -m muzero.train --multirun hydra/sweeper=random hydra.sweeper.trials=8 preset=smoke game=kuhn "
    "evaluation.games=100 'learner.lr=tag(log,interval(1e-4,1e-1))' train.steps=4,16": Run(
        "train.iterations=2 hydra.sweeper.trials=1", swap=(("hydra.sweeper.trials=8 ", ""),)
    ),
    "python -m muzero.train ARGUMENTS --cfg job": Run(swap=(("ARGUMENTS ", ""),), says="learner:"),
    "python -m muzero.train ARGUMENTS --help": Run(swap=(("ARGUMENTS", "game=lama"),)),
    "python -m muzero.train preset=smoke +variant=belief run_dir=runs/first": training(("runs/first", "runs/tutorial")),
    "python -m muzero.train preset=smoke +variant=belief learner.lr=3e-4 run_dir=runs/slow": training(),
    "python -m muzero.train preset=smoke +variant=belief --cfg job": Run(says="learner:"),
    "mkdir -p mine/variant": Run(),
    r"printf '# @package _global_\nvariant: sharp\nmodel:\n  ego: true\n  outcome_heads: true\nlearner:\n  "
    r"winner_weight: [1.0, 1.0]\n' > mine/variant/sharp.yaml": Run(),
    "python -m muzero.train --config-dir mine preset=smoke +variant=sharp run_dir=runs/sharp": training(),
    "python -m muzero.train model.latent=flat model.encoder=python:my_parts:Encoder": training(),
    "python -m muzero.train +variant=belief train.init=checkpoint:RUN": training(("RUN", "runs/first")),
    "python -m muzero.train +variant=belief search.correct_luck=false train.iterations=920 train.keep_every=60 "
    "run_dir=RUN": training(("train.iterations=920", ""), ("run_dir=RUN", "run_dir=runs/920")),
    "python -m muzero.train +variant=belief train.iterations=240 train.minutes=0 selfplay.judged_outcomes=8 "
    "run_dir=RUN": training(("train.iterations=240 train.minutes=0 ", ""), ("run_dir=RUN", "run_dir=runs/judged")),
    "python -m muzero.train +variant=belief train.iterations=920 train.keep_every=60 run_dir=RUN": training(
        ("train.iterations=920", ""), ("run_dir=RUN", "run_dir=runs/920b")
    ),
    "python -m muzero.train variant=belief seed=S run_dir=runs/seedS train.minutes=6.5 train.keep_every=25 "
    "train.checkpoint_every=25 evaluation.every=0": training(
        ("seedS", "seed1"), ("=S", "=1"), (" evaluation.every=0", "")
    ),
    "python -m muzero.train variant=belief train.minutes=0 train.iterations=240 run_dir=runs/round": training(
        ("train.iterations=240", "")
    ),
    "python -m muzero.train variant=belief train.minutes=0 train.iterations=240 run_dir=runs/match "
    "comparison=match": Run(TRAIN.replace("+game.rules.episode=round ", ""), swap=(("train.iterations=240", ""),)),
    "python -m muzero.train model.network=python:my_parts:Linear run_dir=runs/mine": training(
        ("runs/mine", "runs/linear")
    ),
    "python -m muzero.train runtime=ray runtime.address=auto": SLURM,
    "torchrun --nproc_per_node=4 -m muzero.train +variant=belief preset=paper": Run(
        TRAIN, swap=(("=4", "=2"), (" preset=paper", ""))
    ),
    "torchrun --nproc_per_node=N -m muzero.train": NAME,
    "python -m muzero.train variant=belief logging.wandb=online": training(
        ("wandb=online", "wandb=offline run_dir=runs/wandb")
    ),
    "python -m muzero.train variant=belief logging.wandb=online logging.project=cards logging.entity=my-team "
    "'logging.tags=[ablation,night]' logging.notes='smaller network' logging.artifacts=true": training(
        ("wandb=online", "wandb=offline run_dir=runs/wandb2")
    ),
    "python -m muzero.train variant=belief logging.tensorboard=true": training(),
    "tensorboard --logdir runs": Run("--port PORT", until="http://"),
    # ---- training behind results
    "python -m muzero.train +variant=belief train.iterations=390 train.minutes=60 evaluation.every=60 "
    "run_dir=runs/belief": training(
        ("train.iterations=390 ", ""), (" evaluation.every=60", ""), ("runs/belief", "runs/planner")
    ),
    "python -m muzero.train variant=baseline train.minutes=13 evaluation.every=0 run_dir=runs/baseline": training(
        (" evaluation.every=0", "")
    ),
    "python -m muzero.train game=lama variant=belief train.minutes=15 evaluation.every=0 run_dir=runs/lama": training(
        (" evaluation.every=0", "")
    ),
    "python -m muzero.train game=skipbo variant=belief train.minutes=16 evaluation.every=0 run_dir=runs/skipbo": Run(
        TWO_HANDED, swap=((" evaluation.every=0", ""),)
    ),
    "python -m muzero.train game=lama +variant=belief run_dir=runs/lama": training(("runs/lama", "runs/lama2")),
    "python -m muzero.train game=skipbo +variant=belief run_dir=runs/skipbo replay.megabytes=72": Run(
        TWO_HANDED, swap=(("runs/skipbo", "runs/skipbo2"),)
    ),
    'make train ARGS="run_dir=runs/belief"': Run(swap=(('runs/belief"', f'runs/belief {TRAIN}"'),)),
    'make train VARIANT=baseline ARGS="run_dir=runs/baseline"': Run(swap=(('runs/baseline"', f'runs/made {TRAIN}"'),)),
    'make train ARGS="run_dir=runs/flat model.latent=flat model.encoder=transformer model.latent_dim=192"': Run(
        swap=(('192"', f'192 {TRAIN}"'),)
    ),
    # ---- evaluation
    "python -m muzero.evaluate --help": Run(says="luck"),
    "python -m muzero.evaluate a=checkpoint:RUN b=bot:greedy games=1000": Run(MATCH, swap=ONE_RUN),
    "python -m muzero.evaluate a=agent:skyjo-belief b=bot:greedy games=200": Run(MATCH, says="win rate"),
    "python -m muzero.evaluate a=agent:skyjo-belief b=bot:greedy games=200 luck=linear": Run(MATCH),
    "python -m muzero.evaluate a=checkpoint:runs/first b=bot:greedy games=40 rules.episode=round": Run(MATCH),
    "python -m muzero.evaluate a=agent:skyjo-belief b=bot:greedy games=40 rules.episode=round": Run(MATCH),
    "python -m muzero.evaluate a=checkpoint:runs/sharp b=checkpoint:runs/first games=40": Run(
        MATCH, swap=(("runs/sharp", "runs/second"),)
    ),
    "python -m muzero.evaluate a=bot:greedy b=bot:column_hunter rules.episode=round games=400 luck=linear workers=1 "
    "out=results/m.json": Run("games=8"),
    "python -m muzero.evaluate a=bot:greedy b=bot:column_hunter games=100000": Run("games=8"),
    "python -m muzero.evaluate a=checkpoint:runs/x b=bot:greedy games=1000 out=results/x.json": Run(MATCH, swap=X_Y),
    "python -m muzero.evaluate a=checkpoint:runs/x b=checkpoint:runs/y games=1000 luck=agent:skyjo-belief "
    "out=results/xy.json": Run(MATCH, swap=X_Y),
    "python -m muzero.evaluate a=checkpoint:runs/x b=checkpoint:runs/y games=20000 stop=0.05 better_by=0.02 "
    "luck=linear": Run(MATCH, swap=X_Y),
    "python -m muzero.evaluate a=checkpoint:RUN,simulations=200 b=checkpoint:RUN,simulations=200,iteration=100 "
    "games=1000": Run(MATCH, swap=(*ONE_RUN, ("iteration=100", "iteration=1"), ("simulations=200", "simulations=2"))),
    "python -m muzero.evaluate a=checkpoint:RUN,iteration=250,simulations=64,value_scale=1.0 "
    "b=checkpoint:RUN,iteration=250,simulations=64 games=400": Run(
        MATCH, swap=(*ONE_RUN, ("iteration=250", "iteration=1"), ("simulations=64", "simulations=2"))
    ),
    "python -m muzero.evaluate a=checkpoint:RUN,iteration=120,simulations=16,correct_luck=on "
    "b=checkpoint:RUN,iteration=120,simulations=16 games=1500 luck=linear": Run(
        MATCH, swap=(*ONE_RUN, ("iteration=120", "iteration=1"), ("simulations=16", "simulations=2"))
    ),
    "python -m muzero.evaluate": NAME,
    "python -m muzero.evaluate game=lama a=agent:lama-belief b=bot:strategy_1 games=8000 batch=1024 seed=1 "
    "out=DIR/lama-belief/strategy_1.json": Run(LAMA, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=lama a=agent:lama-belief,simulations=0 b=bot:strategy_1 games=8000 batch=1024 "
    "seed=1 out=DIR/lama-belief/strategy_1_policy.json": Run(LAMA, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=skipbo a=agent:skipbo-belief b=bot:greedy games=400 seed=1 "
    "out=DIR/skipbo-belief/greedy.json": Run("games=2 workers=1", swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=skipbo a=agent:skipbo-belief b=bot:hpvp games=400 seed=1 "
    "out=DIR/skipbo-belief/hpvp.json": Run("games=2 workers=1", swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=skipbo a=agent:skipbo-belief b=bot:wild_saver games=400 seed=1 "
    "out=DIR/skipbo-belief/wild_saver.json": Run("games=2 workers=1", swap=(("DIR", "out"),)),
    "python -m muzero.evaluate a=agent:skyjo-baseline b=bot:greedy games=600 luck=linear "
    "out=DIR/skyjo-baseline/greedy.json": Run(MATCH, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate a=agent:skyjo-baseline b=agent:skyjo-belief games=400 seed=7 "
    "out=DIR/skyjo-baseline/skyjo-belief.json": Run(MATCH, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=lama a=agent:lama-belief b=bot:strategy_1 games=2000 rules=official seed=7 "
    "out=DIR/lama-belief/strategy_1_official.json": Run(LAMA, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate game=lama a=policy:lama-belief b=bot:strategy_1 games=2000 rules=official seed=7 "
    "out=DIR/lama-belief/strategy_1_official_policy.json": Run(LAMA, swap=(("DIR", "out"),)),
    "python -m muzero.evaluate a=checkpoint:experiments/results/lama_half_hour/belief/agent.safetensors "
    "b=bot:strategy_1 games=20000 batch=1024 out=experiments/results/lama_half_hour/strategy_1.json": EARLIER,
    "for b in greedy hpvp wild_saver; do python -m muzero.evaluate "
    "a=checkpoint:experiments/results/skipbo_half_hour/belief/agent.safetensors b=bot:$b games=1000 "
    "out=experiments/results/skipbo_half_hour/$b.json; done": EARLIER,
    "python -m muzero.evaluate ... records=runs/records/NAME": PLACEHOLDER,
    "python -m muzero.evaluate a=A b=B games=N luck=VALUE workers=1": PLACEHOLDER,
    "python -m muzero.evaluate a=python:my_agents:LowCards b=bot:greedy game=skyjo": Run(MATCH),
    "python -m muzero.evaluate a=python:my_agents:LowCards b=bot:greedy game=skyjo games=100": Run(MATCH),
    "python -m muzero.evaluate a=checkpoint:runs/mine,imports=my_parts b=bot:greedy": Run(MATCH),
    "python -m muzero.play opponents=python:my_agents:LowCards,last=on game=skyjo": Run(typed="quit\n"),
    'python -m muzero.arena "agents=[python:my_agents:LowCards]"': Run("port=PORT", until="http://127.0.0.1:"),
    "python -m": NAME,
    "python -m muzero.ladder": NAME,
    "python -m muzero.ladder players=4 ...": PLACEHOLDER,
    'python -m muzero.ladder "agents=[checkpoint:RUN,bot:greedy,random]" out=DIR': Run(MATCH, swap=ONE_RUN),
    "python -m muzero.ladder 'agents=[checkpoint:runs/x,policy:runs/x,bot:greedy]' games=1000 out=results/ladder": Run(
        MATCH, swap=X_Y
    ),
    "python -m muzero.ladder agents=[simulator:128,bot:greedy,bot:naive,bot:threshold] game=skyjo "
    "rules.episode=round out=ladder": Run(
        "games=4 workers=1", swap=(("simulator:128", "simulator:2"), ("=ladder", "=out/simulator"))
    ),
    "python -m env.game_record": NAME,
    "python -m env.game_record results/games/000000-seat0.json": Run(
        swap=(("results/games/000000-seat0.json", "FILE"),)
    ),
    "python -m env.game_record FILE...": Run(swap=(("FILE...", "FILE"),)),
    "python -m env.game_record FILE --check": Run(fast=True),
    "printf '%s' \"SEED:NONCE\" | sha256sum": Run(fast=True),
    # ---- reports
    "python -m muzero.report": NAME,
    "python -m muzero.report RUN": Run(swap=ONE_RUN),
    "python -m muzero.report RUN...": Run(swap=BOTH),
    "python -m muzero.report runs/first": Run(),
    "python -m muzero.report experiments/results/lama_half_hour/belief "
    "--out experiments/results/lama_half_hour/report": Run(
        swap=(("experiments/results/lama_half_hour/report", "out"),)
    ),
    "python -m muzero.report experiments/results/skipbo_half_hour/belief "
    "--out experiments/results/skipbo_half_hour/report": Run(
        swap=(("experiments/results/skipbo_half_hour/report", "out"),)
    ),
    "python -m muzero.report upload RUN...": Run("--mode offline", swap=BOTH),
    "python -m muzero.report upload RUN... --to tensorboard": Run(swap=BOTH),
    "python -m muzero.report upload ladder/ladder.json DIR/head_to_head.json --artifacts": Run(
        "--mode offline --out up",
        swap=(
            ("ladder/ladder.json", "experiments/results/skyjo_ladder/ladder.json"),
            ("DIR/", "experiments/results/skyjo_half_hour/head_to_head/"),
        ),
    ),
    "python -m muzero.report dashboard": WANDB,
    "wandb sync": WANDB,
    "wandb sweep experiments/sweep.yaml": WANDB,
    "wandb agent ENTITY/PROJECT/ID": WANDB,
    "python -m muzero.agents.export": NAME,
    "python -m muzero.agents.export agent=agent:skyjo-belief format=onnx": "tests/agents/test_export.py runs it",
    # ---- games with people and programs
    "python -m muzero.play game=skyjo": Run(typed="quit\n"),
    "python -m muzero.play opponents=checkpoint:RUN": Run(swap=ONE_RUN, typed="quit\n"),
    "python -m muzero.play game=skyjo you=0 opponents=checkpoint:RUN": Run(swap=ONE_RUN, typed="quit\n"),
    "python -m muzero.play game=lama players=4 opponents=bot:strategy_1": Run(typed="quit\n"),
    "python -m muzero.play you=-1 opponents=[agent:skyjo-belief,bot:greedy]": Run("rules.episode=round"),
    'python -m muzero.arena "agents=[checkpoint:RUN]"': Run("port=PORT", swap=ONE_RUN, until="http://127.0.0.1:"),
    "python -m muzero.engine": Run(),
    "python -m muzero.engine agent=checkpoint:RUN,simulations=64 batch=256": Run(swap=ONE_RUN),
    "python -m muzero.engine agent=AGENT": Run(swap=(("AGENT", "agent:skyjo-belief"),)),
    "python -m env.play skyjo --list-bots": Run(says="greedy", fast=True),
    "python -m env.play kuhn": Run(typed="q\n"),
    # ---- the study and clusters
    "python -m experiments.study --help": Run(says="submit=local"),
    "python -m experiments.study plan preset=paper": Run(says="muzero.train"),
    "python -m experiments.study submit=local preset=smoke": "tests/slurm and tests/experiments/study run it",
    "python -m experiments.study submit=local preset=cpu": HOURS,
    "python -m experiments.study submit=slurm preset=paper": SLURM,
    "python -m experiments.study status preset=paper": SLURM,
    "python -m experiments.study usage preset=paper": SLURM,
    "git clone ... belief-muzero && cd belief-muzero": PLACEHOLDER,
    "srun --cpus-per-task=8 make setup CONSTRAINTS=": SLURM,
    "srun --gpus=1 --cpus-per-task=8 make bench-gpu CONSTRAINTS=": SLURM,
    "sacct": NAME,
    "sacct --jobs=NUMBER --duplicates --format=JobID,State,Elapsed,TotalCPU,MaxRSS,ReqMem": SLURM,
    "sinfo": SLURM,
    "slurm/": "a directory",
    "slurm/config.sh": "a file of settings",
    "slurm/sync_wandb.sh": NAME,
    "slurm/sync_wandb.sh runs": WANDB,
    "slurm/submit.sh train.sbatch +variant=belief preset=paper seed=0": SLURM,
    'VARIANTS="baseline belief" SEEDS="0 1 2" slurm/submit.sh train_array.sbatch preset=paper': SLURM,
    'A_RUNS="runs/belief-s0" B_RUNS="runs/baseline-s0" ITERATIONS="1000 2000" slurm/head_to_head.sh': SLURM,
    "slurm/submit.sh probes.sbatch --runs runs/belief-s0 runs/baseline-s0 --games 500 --out runs/probes": SLURM,
    "slurm/submit.sh python.sbatch -m experiments.bot_eval --runs runs/belief-s0 --games 1000 --out runs/bots": SLURM,
    "slurm/submit.sh --nodes=4 ray_cluster.sbatch +variant=belief preset=paper seed=0": SLURM,
    "GPUS=4 slurm/submit.sh --ntasks-per-node=4 train_multi_gpu.sbatch +variant=belief preset=paper seed=0": SLURM,
    "pip install -c constraints.txt 'ray[default]'": PIP,
    "tests/slurm/throwaway.sh install": SLURM,
    "mkdir /tmp/throwaway && export $(tests/slurm/throwaway.sh start /tmp/throwaway)": SLURM,
    "tests/slurm/throwaway.sh stop /tmp/throwaway": SLURM,
    # ---- experiments
    "python -m experiments.NAME": PLACEHOLDER,
    "python -m experiments.arena_levels": Run("--games 20 --most 40 --only 'lama of any size' --out out/levels.json"),
    "python -m experiments.arena_levels --only lama --record": Run(
        swap=(("--only lama --record", "--games 20 --most 40 --only lama --out out/lama.json"),)
    ),
    "python -m experiments.arena_levels --only 'lama of any size' --record": LEVELS,
    "python -m experiments.arena_levels --only 'skipbo of any size' --record": LEVELS,
    "python -m experiments.arena_levels --only skipbo --games 100 --record": LEVELS,
    "python -m experiments.arena_levels --games 1000 --only skyjo --record": LEVELS,
    "python -m experiments.arena_levels --games 400 --only 'skyjo of any size' --record": LEVELS,
    "python -m experiments.beliefs": NAME,
    "python -m experiments.beliefs --runs RUN... --out DIR": Run(
        "--games 8", swap=(("RUN...", "runs/cards"), ("DIR", "out"))
    ),
    "python -m experiments.bench_arena": Run("--quick"),
    "python -m experiments.bench_env": Run("--seconds 0.05"),
    "python -m experiments.bench_env --seconds 2 --record": Run("--seconds 0.05", swap=((" --record", ""),)),
    "python -m experiments.bench_paper_network": Run("--quick --repetitions 1"),
    "python -m experiments.bench_search": Run("--quick --seconds 0.05"),
    "python -m experiments.bench_search --no-compile": Run("--quick --seconds 0.05"),
    "python -m experiments.bench_search --seconds 2 --record": Run("--quick --seconds 0.05", swap=((" --record", ""),)),
    "python -m experiments.bench_search --busy": Run("--quick --seconds 0.05 --rounds 1"),
    "python -m experiments.bench_search --engine": Run("--quick --seconds 0.05 --rounds 1"),
    "python -m experiments.bench_search --peer mctx": MCTX,
    "python -m experiments.bench_search --peer mctx --busy --rounds 2 --seconds 1.5 "
    "--json experiments/results/bench_search_mctx.json": MCTX,
    "python -m experiments.bench_training": Run("--quick --seconds 0.1"),
    "python -m experiments.bench_training --seconds 8": Run("--quick --seconds 0.1"),
    "python -m experiments.bench_training --busy": Run("--quick --seconds 0.1 --rounds 1"),
    "python -m experiments.bot_eval --runs RUN... --out DIR": Run(f"{GAMES} --bots greedy", swap=ONE_RUN),
    "python -m experiments.compare_commits COMMIT BENCHMARK": COMMITS,
    "python -m experiments.compare_commits d2be66b bench_env": COMMITS,
    "python -m experiments.compare_training d2be66b": COMMITS,
    "python -m experiments.compare_training d2be66b --seconds 6 "
    "--json experiments/results/compare_training.json": COMMITS,
    "python -m experiments.judged_cost": Run("--rounds 1 --outcomes 1 --set selfplay.tables=8"),
    "python -m experiments.judged_cost --outcomes 4 8 --rounds 3": Run("--rounds 1 --set selfplay.tables=8"),
    "python -m experiments.action_values --agents AGENT... --out DIR": Run(
        "--games 8 --worlds 2", swap=(("AGENT...", "agent:skyjo-belief"), ("DIR", "out"))
    ),
    "python -m experiments.action_values --agents agent:skyjo-belief checkpoint:RUN,iteration=300 "
    "--rules episode=round round_reward=2.0 first_starter=random max_decisions=400": Run(
        "--games 8 --worlds 2 --out out", swap=((" checkpoint:RUN,iteration=300", ""),)
    ),
    "python -m experiments.value_error --agents AGENT... --out DIR": Run(
        "--games 8 --playouts 2 --rounds 4 --outcomes 0 2", swap=(("AGENT...", "agent:skyjo-belief"), ("DIR", "out"))
    ),
    "python -m experiments.value_error --agents agent:skyjo-belief agent:skyjo-baseline "
    "--rules episode=round round_reward=2.0 first_starter=random max_decisions=400": Run(
        "--games 8 --playouts 2 --rounds 4 --outcomes 0 2 --out out"
    ),
    "python -m experiments.decision_gains --runs RUN... --out DIR": Run(
        "--games 2 --counts 2 --worlds 2", swap=ONE_RUN
    ),
    "python -m experiments.ego_ablation --runs RUN... --out DIR": Run(GAMES, swap=ONE_RUN),
    "python -m experiments.exploitability": NAME,
    "python -m experiments.exploitability --target AGENT --minutes 10 --out DIR": Run(
        f"--games 4 --minutes 0.02 --set {TRAIN.replace('preset=smoke ', '')} selfplay.tables=8",
        swap=(("AGENT", "bot:greedy --game skyjo"), ("DIR", "out"), (" --minutes 10", "")),
    ),
    "python -m experiments.head_to_head --a RUN... --b RUN... --out DIR": Run(GAMES, swap=TWO_RUNS),
    "python -m experiments.head_to_head --a runs/match --b runs/round --out runs/match_or_round": Run(
        GAMES, swap=MATCH_ROUND
    ),
    "python -m experiments.head_to_head --a runs/match --b runs/round --rules episode=round "
    "--out runs/match_or_round_in_rounds": Run(GAMES, swap=MATCH_ROUND),
    "python -m experiments.match_utility --runs runs/match --out runs/match_utility": Run(
        "--games 20 --positions 4", swap=(("runs/match ", "runs/utility "),)
    ),
    "python -m experiments.interval_coverage --matches 4000 --deals 5000 --record": Run(
        "--matches 10 --deals 20 --evaluations 2 --evaluation-games 4 --out out", swap=((" --record", ""),)
    ),
    "python -m experiments.interval_coverage --out DIR": Run(
        "--matches 10 --deals 20 --evaluations 2 --evaluation-games 4", swap=(("DIR", "out"),)
    ),
    "python -m experiments.lama_tables": Run("--games 8 --figure-games 8 --out out"),
    "python -m experiments.latent_probes --runs RUN... --games 150 --out DIR": Run("--games 10", swap=ONE_RUN),
    "python -m experiments.learner_ways": Run("--rounds 1 --steps 1"),
    "python -m experiments.learner_ways --rounds 5": Run("--rounds 1 --steps 1"),
    "python -m experiments.luck_adjustment --games 1000 --matches-played 1 --workers 1 --simulated 100 --record": Run(
        "--games 8 --simulated 2 --out out", swap=((" --record", ""),)
    ),
    "python -m experiments.luck_adjustment --games 2000 --out DIR": Run(
        "--games 8 --matches-played 1 --workers 1 --simulated 2", swap=(("DIR", "out"),)
    ),
    "python -m experiments.luck_bias --games 100000 --out DIR": HOURS,
    "python -m experiments.luck_cost": NAME,
    "python -m experiments.luck_cost --games 128 --out DIR": Run(
        "--games 2 --counts 0 --rounds 1", swap=(("DIR", "out"),)
    ),
    "python -m experiments.match_utility --players 2 4 8 --out DIR": Run(
        "--games 20", swap=(("DIR", "out"), ("2 4 8", "2"))
    ),
    "python -m experiments.redraw": Run("--formats png"),
    "python -m experiments.simulations --runs RUN... --out DIR": Run(f"{GAMES} --counts 0 2", swap=ONE_RUN),
    "python -m experiments.simulations --runs runs/belief --games 1000 --out runs/simulations": Run(
        f"{GAMES} --counts 0 2", swap=ONE_RUN
    ),
    "python -m experiments.simulations --runs RUN --games 1000 --counts 0 4 16 64 --luck linear --out DIR": Run(
        f"{GAMES} --counts 0 2", swap=ONE_RUN
    ),
    "python -m experiments.skipbo_duels": Run("--difference 0.3 --out out"),
    "python -m experiments.skyjo_planner --runs RUN... --out DIR": TRAINED,
    "python -m experiments.skyjo_planner --runs runs/belief --out runs/planner": TRAINED,
    "python -m experiments.skyjo_thresholds": Run("--games 4 --bootstrap 10 --out out"),
    "python -m experiments.soak ray --minutes 60 --out DIR": SOAK,
    "python -m experiments.soak ray": SOAK,
    "python -m experiments.soak arena": SOAK,
    "python -m experiments.table_sizes --runs RUN... --out DIR": Run(GAMES, swap=ONE_RUN),
    "python -m experiments.time_to_strength --runs RUN... --out DIR": Run(GAMES, swap=ONE_RUN),
    "python -m experiments.time_to_strength --runs runs/seed0 runs/seed1 runs/seed2 --games 200": Run(
        f"{GAMES} --out out", swap=(("runs/seed0 runs/seed1 runs/seed2", "runs/first"),)
    ),
    "python -m experiments.training_ablation --runs RUN... --out DIR": Run(GAMES, swap=BOTH),
}
# Blocks of code that are no commands, by their first line.
NO_COMMANDS = (
    "the game contract (env/game.h) is not fulfilled,",
    "G = 0x9e3779b97f4a7c15",
)
