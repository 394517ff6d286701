"""Markdown tables."""

from __future__ import annotations

import pytest

from muzero.runs.markdown import markdown_table


def test_the_first_column_is_left_aligned_and_the_others_right() -> None:
    assert markdown_table(["agent", "games"], [["a", 3], ["b", 12]]) == [
        "| agent | games |",
        "| :-- | --: |",
        "| a | 3 |",
        "| b | 12 |",
    ]


def test_alignment_can_be_chosen_per_column() -> None:
    assert markdown_table(["", "", ""], [], "rcl")[1] == "| --: | :-: | :-- |"


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(AssertionError):
        markdown_table(["agent", "games"], [["a"]])
