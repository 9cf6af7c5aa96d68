from math import nan

import numpy as np
import pytest

from scaling.outcome import Discrepancy, Selection
from scaling.selection import select
from tests.scaling.loss_tables import draw_table


def outcome(**changes: object) -> Selection:
    means = 2.2 + 0.02 * np.arange(12)
    losses = draw_table(np.random.default_rng(5), means, 4, 0.002)
    arguments: dict[str, object] = {"delta": 0.0066, "rng": np.random.default_rng(0)}
    return select(losses, **(arguments | changes))  # type: ignore[arg-type]


def test_statement_names_the_set_the_margin_and_both_probabilities() -> None:
    text = outcome().statement
    assert text.startswith("Of 12 configurations tested, #0, #1 and #2 came first.")
    assert "within 0.0066 nats (0.3 %) of the best of those tested with probability" in text
    assert "it is itself the best of those tested with probability" in text


def test_statement_names_what_it_accounts_for() -> None:
    text = outcome(
        discrepancy=Discrepancy(std=0.004, source="own ladder of 3 widths"),
        caveats=("a horizon 120 times as long",),
    ).statement
    assert "noise between seeds (sd" in text
    assert "sd 0.004 nats (own ladder of 3 widths)" in text
    assert text.endswith(
        "It does not account for configurations that were not tested; a horizon 120 times as long."
    )


def test_default_discrepancy_is_said_to_be_assumed() -> None:
    assert "0.006 nats (assumed from public runs, not measured here)" in outcome().statement


@pytest.mark.parametrize("spacing", [0.0, 1.0])
def test_no_probability_is_stated_as_certain_or_nil(spacing: float) -> None:
    means = 2.2 + spacing * np.arange(12)
    losses = draw_table(np.random.default_rng(5), means, 4, 0.002)
    text = select(losses, delta=0.0066, rng=np.random.default_rng(0)).statement
    assert "probability 100 %" not in text
    assert "probability 0 %" not in text


def test_ties_are_named() -> None:
    selection = outcome(delta=0.05)
    assert "#3 and #4 tie with the last of them" in selection.statement


def test_unfinished_study_says_so() -> None:
    selection = select({0: {0: nan}}, delta=0.01, rng=np.random.default_rng(0))
    assert selection.statement.startswith("Incomplete: none of the 1 configurations finished")
