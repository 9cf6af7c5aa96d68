from dataclasses import replace

from reports.blocks import Picture, Table
from reports.sections import SECTIONS, configurations, limits, loss_curves, origins, proxy
from reports.view import StudyView


def test_the_decision_comes_first_and_every_section_has_its_own_address(view: StudyView) -> None:
    made = [section(view) for section in SECTIONS]
    slugs = [section.slug for section in made]
    assert slugs[0] == "decision"
    assert len(set(slugs)) == len(slugs)
    assert all(section.blocks and section.title for section in made)


def test_every_row_of_a_table_has_a_cell_for_every_column(view: StudyView) -> None:
    tables = [
        block for section in SECTIONS for block in section(view).blocks if isinstance(block, Table)
    ]
    assert len(tables) >= 5
    for table in tables:
        assert {len(row.cells) for row in table.rows} == {len(table.columns)}


def test_all_configurations_are_listed_with_role_by_tone(view: StudyView) -> None:
    (table,) = (block for block in configurations(view).blocks if isinstance(block, Table))
    assert len(table.rows) == len(view.rows)
    tones = {row.cells[1].text: row.tone for row in table.rows}
    assert tones[view.rows[0].name] == "chosen"
    assert tones["#0 incumbent"] == "incumbent"
    assert tones["#12"] == ""


def test_a_dimension_that_was_cut_is_marked(view: StudyView) -> None:
    cut = replace(view.dimensions[0], treatment="cut", reason="adds an axis")
    (table, _) = proxy(replace(view, dimensions=(cut,))).blocks
    assert isinstance(table, Table)
    assert [cell.tone for cell in table.rows[0].cells if cell.text == "cut"] == ["bad"]


def test_made_up_data_is_the_first_limit(view: StudyView) -> None:
    (plain,) = limits(view).blocks
    (made_up,) = limits(replace(view, is_synthetic=True)).blocks
    assert len(made_up.items) == len(plain.items) + 1
    assert "made up" in made_up.items[0]


def test_curves_left_out_are_counted_in_the_caption(view: StudyView) -> None:
    (block,) = loss_curves(replace(view, num_curves_left_out=850)).blocks
    assert isinstance(block, Picture)
    assert "850 configurations" in block.caption


def test_origins_hold_every_run_in_order_of_trials(view: StudyView) -> None:
    details = origins(view).blocks[-1]
    (table,) = details.blocks
    assert [row.cells[0].text for row in table.rows] == [str(n) for n in range(view.num_runs)]
