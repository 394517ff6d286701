"""Parts that the scripts in experiments/ share: runs, matches, pooled statistics, tables, files, command lines."""

from experiments.common.command_line import (
    RESULTS,
    add_json_options,
    add_match_options,
    add_output_options,
    add_run_options,
    command_text,
    make_parser,
    run_experiment,
)
from experiments.common.figures import error_bars
from experiments.common.files import DATA, published, write_results
from experiments.common.match_specs import MatchSpec, Row, play_match_specs, read_parts
from experiments.common.pooling import interval, over_pairs, over_seeds, pooled, with_holm
from experiments.common.runs import agent_of, iteration_of, iterations_of, read_runs, same_players, variants
from experiments.common.tables import luck_free_rate, published_matches, rate, seeds, signed
from muzero.runs.markdown import markdown_table as table
from muzero.runs.run import Run

__all__ = [
    "DATA",
    "RESULTS",
    "MatchSpec",
    "Row",
    "Run",
    "add_json_options",
    "add_match_options",
    "add_output_options",
    "add_run_options",
    "agent_of",
    "command_text",
    "error_bars",
    "interval",
    "iteration_of",
    "iterations_of",
    "luck_free_rate",
    "make_parser",
    "over_pairs",
    "over_seeds",
    "play_match_specs",
    "pooled",
    "published",
    "published_matches",
    "rate",
    "read_parts",
    "read_runs",
    "run_experiment",
    "same_players",
    "seeds",
    "signed",
    "table",
    "variants",
    "with_holm",
    "write_results",
]
