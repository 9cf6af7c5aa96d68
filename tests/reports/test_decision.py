from dataclasses import replace

import pytest

from reports.blocks import Cards, Details, Facts, Remarks, Table, Verdict
from reports.decision import VERDICT_WORDS, decision, recipes
from reports.view import StudyView
from simulator.records.summary import Flag


def block_of(section, kind):
    return next(block for block in section.blocks if isinstance(block, kind))


def with_summary(view: StudyView, **changes) -> StudyView:
    assert view.summary is not None
    return replace(view, summary=replace(view.summary, **changes))


def test_the_three_best_stand_beside_each_other(view: StudyView) -> None:
    cards = block_of(decision(view), Cards).items
    assert [card.rank for card in cards] == ["Rank 1", "Rank 2", "Rank 3"]
    assert [card.name for card in cards] == [
        f"Configuration #{row.config}" for row in view.rows[:3]
    ]
    assert all("better than the published recipe" in card.headline for card in cards)
    assert "the lowest of all" in cards[0].evidence
    assert "\N{PLUS-MINUS SIGN} 0.0031 from the best" in cards[1].evidence


def test_a_configuration_worse_than_the_incumbent_says_so(view: StudyView) -> None:
    worse = replace(view.rows[0], gain=-0.02)
    (first, *_) = block_of(decision(replace(view, rows=(worse, *view.rows[1:]))), Cards).items
    assert first.headline == "0.0200 nats worse than the published recipe"


def test_the_incumbent_among_the_best_is_named_as_such(view: StudyView) -> None:
    own = replace(view.rows[0], is_incumbent=True, gain=0.0)
    (first, *_) = block_of(decision(replace(view, rows=(own, *view.rows[1:]))), Cards).items
    assert first.headline == "The published recipe itself"
    assert first.rank == "Rank 1, incumbent"


def test_ties_are_listed_with_their_distance(view: StudyView) -> None:
    tied = replace(view.rows[3], group="tie")
    table = block_of(decision(replace(view, rows=(*view.rows[:3], tied))), Table)
    assert [row.cells[0].text for row in table.rows] == [tied.name]


def test_many_ties_are_folded_away(view: StudyView) -> None:
    ties = tuple(replace(view.rows[3], group="tie", config=50 + n) for n in range(12))
    section = decision(replace(view, rows=(*view.rows[:3], *ties)))
    details = block_of(section, Details)
    assert details.title == "12 more configurations tie with the third"
    assert not [block for block in section.blocks if isinstance(block, Table)]


@pytest.mark.parametrize("verdict", list(VERDICT_WORDS))
def test_every_verdict_has_a_word_and_its_statement(view: StudyView, verdict: str) -> None:
    block = block_of(decision(with_summary(view, verdict=verdict)), Verdict)
    assert block.word == VERDICT_WORDS[verdict]
    assert view.summary is not None
    assert block.statement == view.summary.statement
    assert (block.tone == "good") == (verdict == "resolved")


def test_a_gain_that_is_unknown_is_not_made_up(view: StudyView) -> None:
    assert view.summary is not None
    assert view.summary.incumbent is not None
    lost = replace(view.summary.incumbent, mean_loss=None, gain=None, gain_standard_error=None)
    for incumbent, words in ((lost, "gave no loss"), (None, "no incumbent")):
        facts = block_of(decision(with_summary(view, incumbent=incumbent)), Facts).items
        assert words in facts[0][2]


def test_recipes_carry_their_interval_and_remarks(view: StudyView) -> None:
    section = recipes(view)
    table = block_of(section, Table)
    assert len(table.rows) == len(view.chosen)
    assert " to " in table.rows[0].cells[4].text
    assert len(block_of(section, Remarks).flags) == 1


def test_a_remark_on_some_recipes_names_them(view: StudyView) -> None:
    first, *rest = view.rows
    assert first.recipe is not None
    plain = replace(first, recipe=replace(first.recipe, flags=()))
    (flag,) = block_of(recipes(replace(view, rows=(plain, *rest))), Remarks).flags
    assert flag.message.startswith("#1, #4: The target sees")


def test_notes_on_single_recipes_are_folded_away(view: StudyView) -> None:
    first, *rest = view.rows
    assert first.recipe is not None
    note = Flag(severity="info", code="prefer_lower_lr", message="too high diverges")
    noted = replace(first, recipe=replace(first.recipe, flags=(*first.recipe.flags, note)))
    section = recipes(replace(view, rows=(noted, *rest)))
    assert len(block_of(section, Remarks).flags) == 1
    (remarks,) = block_of(section, Details).blocks
    assert [flag.message for flag in remarks.flags] == ["#9: Too high diverges."]
