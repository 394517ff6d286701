"""Agents described by text: parsing, options, the weights behind them, and how they search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muzero.agents import agent_spec
from muzero.agents.agent_spec import (
    AgentSpec,
    build,
    fingerprint,
    join_options,
    load_network,
    match_search,
    resolve,
    shipped_agents,
    trained_for,
)
from muzero.agents.agents import Bot, Policy, Searcher
from muzero.agents.simulator import Simulator
from muzero.config import SearchConfig
from muzero.model.native import _native
from muzero.model.network import Network
from muzero.runs import checkpoint
from tests.agents.untrained_run import save_untrained_run


def resolved(text: str) -> str:
    return str(resolve(AgentSpec.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "random",
        "bot:threshold(t=2,epsilon=0.1)",
        "checkpoint:runs/x,simulations=64,ablation=no_ego",
        "checkpoint:runs/x,backup=ego,value_visits=2.5,chance_source=cards,merge=off",
        "agent:skyjo-belief,simulations=64",
        "policy:runs/x,iteration=7",
        "simulator:8,bot=greedy",
    ],
)
def test_parsing_and_formatting_are_inverse(text: str) -> None:
    spec = AgentSpec.parse(text)
    assert str(spec) == text
    assert AgentSpec.parse(str(spec)) == spec
    assert hash(spec) == hash(AgentSpec.parse(text))


def test_options_are_replaced_in_place_or_added_at_the_end() -> None:
    spec = AgentSpec.of("checkpoint", Path("runs/x"), iteration=4, simulations=None)
    assert str(spec) == "checkpoint:runs/x,iteration=4"
    assert str(spec.with_options(simulations=64, ablation=None)) == "checkpoint:runs/x,iteration=4,simulations=64"
    assert str(spec.with_options(bf16="on", iteration=5)) == "checkpoint:runs/x,iteration=5,bf16=on"
    assert str(spec) == "checkpoint:runs/x,iteration=4", "unchanged"
    with pytest.raises(ValueError, match=r"agent 'checkpoint:runs/x,iteration=4,speed=9': expected options among iter"):
        spec.with_options(speed=9)
    with pytest.raises(ValueError, match=r"expected no comma before the options, got 'runs/a,b'"):
        AgentSpec.of("checkpoint", "runs/a,b")
    with pytest.raises(ValueError, match=r"network: expected a value without a comma, got 'runs/a,b'"):
        AgentSpec.of("simulator", 8, network="runs/a,b")


def test_agents_are_built_as_described(run: Path) -> None:
    def made(text: str) -> Any:
        return build(AgentSpec.parse(text), "skyjo", 2, batch=4)

    assert isinstance(made("bot:threshold(t=2, epsilon=0.1)"), Bot)
    searcher = made(f"checkpoint:{run},iteration=7,simulations=9,algorithm=puct,ablation=no_ego")
    assert isinstance(searcher, Searcher)
    assert (searcher.planner.config.simulations, searcher.planner.config.algorithm) == (9, "puct")
    assert searcher.planner.network.condition.ablation == "no_ego"
    assert made(f"checkpoint:{run}").planner.config.simulations == 3, "as it was trained"
    assert made(f"checkpoint:{run},value_scale=0.25").planner.config.value_scale == 0.25
    policy, simulator = made(f"policy:{run},temperature=0.5"), made("simulator:32,bot=threshold")
    assert isinstance(policy, Policy)
    assert policy.temperature == 0.5
    assert isinstance(simulator, Simulator)
    assert (simulator.simulations, simulator.bot) == (32, "threshold")
    assert isinstance(made(f"simulator:8,network={run}").network, Network)


def with_error(path: Path, error: float | None, **search: Any) -> Path:
    """Run of an untrained network whose values were measured to be wrong by `error`."""
    save_untrained_run(path)
    found = checkpoint.load_weights(path)
    agent = {**found.agent, "search": {**found.agent["search"], **search}, "value_rmse": error}
    del agent["format"], agent["iteration"]
    checkpoint.save(path, 9, tensors={"weights": found.weights}, arrays={}, state={}, agent=agent)
    return path


def test_values_are_weighed_by_their_measured_error(tmp_path: Path) -> None:
    per_unit = {"rescale_values": False, "visit_trust": 0.0, "maxvisit_init": 50.0}
    for error, scale in ((0.08, 0.3), (0.24, 0.1)):
        run = with_error(tmp_path / str(error), error, **per_unit)
        spec = AgentSpec.parse(f"checkpoint:{run},value_scale=auto")
        assert resolve(spec).options["value_scale"] == str(scale), "results name the number"
        for described in (spec, resolve(spec)):
            searcher = build(described, "skyjo", 2, batch=4)
            assert isinstance(searcher, Searcher)
            assert searcher.planner.config.value_scale == pytest.approx(scale)
    before = build(AgentSpec.parse(f"checkpoint:{run}"), "skyjo", 2, batch=4)
    assert isinstance(before, Searcher)
    assert before.planner.config.value_scale == pytest.approx(0.1), "off by default: as it was trained"


@pytest.mark.parametrize(
    ("error", "search", "message"),
    [
        (
            None,
            {"rescale_values": False, "visit_trust": 0.0},
            "expected a number: the checkpoint has no measured error",
        ),
        (0.1, {"rescale_values": True, "visit_trust": 0.0}, "only with search.rescale_values=false and search.visit_t"),
        (
            0.1,
            {"rescale_values": False, "visit_trust": 1.0},
            "only with search.rescale_values=false and search.visit_t",
        ),
    ],
)
def test_values_cannot_be_weighed_by_an_unknown_error(
    tmp_path: Path, error: float | None, search: dict[str, Any], message: str
) -> None:
    spec = AgentSpec.parse(f"checkpoint:{with_error(tmp_path, error, **search)},value_scale=auto")
    for made in (resolve, lambda spec: build(spec, "skyjo", 2, batch=4)):
        with pytest.raises(ValueError, match=f"value_scale: .*{message}"):
            made(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("robot:greedy", "expected one of random:..., bot:"),
        ("bot:", "expected something after the colon"),
        ("random:1", "except for random"),
        ("checkpoint:x,speed=9", "expected options among iteration, simulations"),
        ("checkpoint:x,simulations", "expected options among"),
        ("agent:", "expected something after the colon"),
        ("agent:skyjo-belief,iteration=3", "expected options among simulations, algorithm, .*, got 'iteration=3'"),
        ("policy:x,merge=off", "expected options among iteration, temperature, ablation, imports, got 'merge=off'"),
        ("simulator:4,bot=greedy,bot=naive", "expected every option once, got 'bot=naive'"),
    ],
)
def test_malformed_text_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentSpec.parse(text)


def test_options_of_the_search_replace_the_settings_of_training(run: Path) -> None:
    def made(options: str) -> SearchConfig:
        built = build(AgentSpec.parse(f"checkpoint:{run},{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config

    trained = made("simulations=3")
    assert (trained.backup, trained.value_visits, trained.chance_source) == ("maxn", 0.0, "learned")
    assert trained.merge
    for option, name, value in (
        ("backup=ego", "backup", "ego"),
        ("value_visits=2.5", "value_visits", 2.5),
        ("chance_source=uniform", "chance_source", "uniform"),
        ("merge=off", "merge", False),
        ("merge=on", "merge", True),
    ):
        assert getattr(made(option), name) == value
        others = {f: v for f, v in vars(made(option)).items() if f != name}
        assert others == {f: v for f, v in vars(trained).items() if f != name}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("backup=min", "search.backup: expected maxn or ego, got 'min'"),
        ("algorithm=magic", "search.algorithm: expected gumbel or puct, got 'magic'"),
        ("chance_source=guess", "search.chance_source: expected learned, exact, uniform or cards, got 'guess'"),
        ("value_visits=-1", "search.value_visits: expected 0 or more, got -1"),
        ("value_visits=few", "value_visits: expected a number, got 'few'"),
        ("simulations=1.5", "simulations: expected a number, got '1.5'"),
        ("merge=yes", "merge: expected on or off, got 'yes'"),
    ],
)
def test_wrong_values_of_options_are_refused_with_agent_and_option(run: Path, option: str, message: str) -> None:
    text = f"checkpoint:{run},{option}"
    with pytest.raises(ValueError, match=rf"agent '{text}'.*{message}"):
        build(AgentSpec.parse(text), "skyjo", 2, batch=4)


def test_shipped_agents_are_known_by_name(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_spec, "SHIPPED", tmp_path)
    with pytest.raises(ValueError, match=r"agent 'agent:skyjo-b': expected one of \(there are none\), got 'skyjo-b'"):
        resolve(AgentSpec.parse("agent:skyjo-b"))
    weights = next(run.glob("checkpoints/*/weights.safetensors"))
    for name in ("skyjo-b", "skyjo-a"):
        (tmp_path / f"{name}.safetensors").write_bytes(weights.read_bytes())
    assert shipped_agents() == ["skyjo-a", "skyjo-b"]
    spec = AgentSpec.parse("agent:skyjo-b,simulations=4")
    assert resolve(spec) == spec, "there is no run with newer checkpoints"
    assert trained_for(spec) == trained_for(AgentSpec.of("checkpoint", run))
    assert fingerprint(spec) == fingerprint(AgentSpec.of("checkpoint", run))
    built = build(spec, "skyjo", 2, batch=4)
    assert isinstance(built, Searcher)
    assert built.planner.config.simulations == 4
    for text in ("agent:skyjo-c", "agent:../x"):
        with pytest.raises(ValueError, match=f"agent '{text}': expected one of skyjo-a, skyjo-b, got"):
            build(AgentSpec.parse(text), "skyjo", 2, batch=4)


def test_agents_that_do_not_fit_the_game_are_refused_by_name(run: Path) -> None:
    with pytest.raises(ValueError, match="players: expected 3 as in this match, got 2"):
        build(AgentSpec.parse(f"policy:{run}"), "skyjo", 3, batch=1)
    with pytest.raises(ValueError, match="worlds: expected a number, got 'many'"):
        build(AgentSpec.parse("simulator:many"), "skyjo", 2, batch=1)
    with pytest.raises(ValueError, match=r"agent 'simulator:8,bot=greedy', bot: lama has no bot 'greedy'"):
        build(AgentSpec.parse("simulator:8,bot=greedy"), "lama", 4, batch=1)
    assert build(AgentSpec.parse("simulator:8"), "lama", 4, batch=1).bot == "strategy_1"  # type: ignore[attr-defined]


def test_a_simulators_network_is_resolved_to_a_checkpoint_however_its_path_is_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    for written in (str(run), f"./{run.name}", f"{run.name}/"):
        text = resolved(f"simulator:8,network={written},bot=greedy")
        assert text.endswith(f"{run.name}/checkpoints/000007,bot=greedy"), text


@pytest.mark.parametrize("native", [True, False])
def test_the_precision_of_long_searches_is_resolved(native: bool, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine, whose default is different, then plays the same agent."""
    monkeypatch.setattr(agent_spec, "_has_bf16", lambda: native)
    long = f"checkpoint:{run},simulations=100,iteration=7"
    assert resolved(long) == f"{long},bf16={'on' if native else 'off'}"
    assert resolved(f"{long},bf16=off") == f"{long},bf16=off"
    assert resolved(f"checkpoint:{run}") == f"checkpoint:{run},iteration=7", "short ones are in single precision"

    def made(options: str) -> SearchConfig:
        built = build(AgentSpec.parse(f"{long},backend=eager{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config

    assert made("").bf16 == native
    assert made(",bf16=on").bf16
    assert not made(",bf16=off").bf16
    with pytest.raises(ValueError, match="bf16: expected on or off, got 'half'"):
        made(",bf16=half")


@pytest.mark.parametrize("native", [True, False])
def test_a_checkpoint_trained_with_auto_bf16_plays_in_the_precision_that_its_name_says(
    native: bool, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_spec, "_has_bf16", lambda: native)
    monkeypatch.setattr(agent_spec, "_trained_search", lambda key, agent: SearchConfig(simulations=3, auto_bf16=True))
    short = f"checkpoint:{run},iteration=7"
    assert resolved(short) == f"{short},bf16={'on' if native else 'off'}"
    for options, expected in (("", native), (",bf16=on", True), (",bf16=off", False)):
        built = build(AgentSpec.parse(f"{short},backend=eager{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        assert built.planner.config.bf16 == expected


def test_the_backend_of_a_checkpoint_can_be_chosen(run: Path) -> None:
    def made(options: str) -> str:
        built = build(AgentSpec.parse(f"checkpoint:{run}{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config.backend

    assert made("") == made(",backend=native") == "native"
    assert made(",backend=eager") == "eager"
    with pytest.raises(
        ValueError, match="backend: expected one of native, eager, compiled, compiled_dynamic, got 'jit'"
    ):
        made(",backend=jit")


def test_bfloat16_runs_in_torch_where_the_native_step_lacks_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for both, bfloat16 and the native step, is refused there."""
    monkeypatch.setattr(_native, "kernels", lambda: ["base"])

    def made(options: str) -> SearchConfig:
        built = build(AgentSpec.parse(f"checkpoint:{run}{options}"), "skyjo", 2, batch=4)
        assert isinstance(built, Searcher)
        return built.planner.config

    assert (made(",bf16=on").backend, made(",bf16=on").bf16) == ("eager", True)
    assert (made(",bf16=off").backend, made(",bf16=off").bf16) == ("native", False)
    with pytest.raises(ValueError, match=r"checkpoint:.*backend=native: expected search.bf16=false on a CPU"):
        made(",bf16=on,backend=native")


def test_a_list_of_agents_split_at_commas_keeps_their_options() -> None:
    text = "checkpoint:runs/x,simulations=64,bot:threshold(t=2,epsilon=0.1),random,simulator:8,bot=greedy,bot:naive"
    expected = [
        "checkpoint:runs/x,simulations=64",
        "bot:threshold(t=2,epsilon=0.1)",
        "random",
        "simulator:8,bot=greedy",
    ]
    assert join_options(text.split(",")) == [*expected, "bot:naive"]


def test_fingerprint_and_training_are_those_of_the_network(run: Path) -> None:
    policy, search, simulator = (
        AgentSpec.of("policy", run),
        AgentSpec.of("checkpoint", run),
        AgentSpec.of("simulator", 8, network=run),
    )
    assert fingerprint(policy) == fingerprint(simulator) == fingerprint(policy.with_options(iteration=7))
    assert fingerprint(search) not in (None, fingerprint(policy)), "the arithmetic of a search counts"
    expected = {"game": "skyjo", "players": 2, "rules": {"episode": "round"}}
    assert trained_for(policy) == trained_for(search) == trained_for(simulator) == expected
    for other in (AgentSpec("random"), AgentSpec("bot", "greedy"), AgentSpec("simulator", "8")):
        assert fingerprint(other) is None
        assert trained_for(other) is None


def test_matches_search_with_two_leaves_where_that_changes_nothing(run: Path) -> None:
    def leaves(trained: SearchConfig, **options: object) -> int:
        spec = AgentSpec.of("checkpoint", run, **options)
        return match_search(spec, load_network(spec, "skyjo", 2)[0], trained).leaves

    gumbel = SearchConfig(simulations=4, rescale_values=False)
    assert leaves(gumbel) == 2
    assert leaves(gumbel, simulations=5) == 1, "an odd number"
    assert leaves(gumbel, algorithm="puct") == 1
    assert leaves(SearchConfig(simulations=4, rescale_values=True)) == 1
