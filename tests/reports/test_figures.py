import math
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from reports import figures
from reports.svg import NARROW, WIDE, to_svg
from reports.view import StudyView

DRAWERS = (
    figures.draw_loss_curves,
    figures.draw_lr_curve,
    figures.draw_finalists,
    figures.draw_schedules,
)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def nothing(view: StudyView) -> StudyView:
    return replace(view, rows=(), curves=(), finalists=(), schedules=(), summary=None)


@pytest.mark.parametrize("canvas", [WIDE, NARROW], ids=lambda canvas: canvas.name)
@pytest.mark.parametrize("draw", DRAWERS)
def test_every_axis_says_what_it_shows(view: StudyView, draw, canvas) -> None:
    figure = draw(view, canvas)
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_xlabel()
    if draw is figures.draw_finalists:  # its other axis names the configurations
        assert axes.get_yticklabels()[0].get_text() == view.rows[0].name
    else:
        assert axes.get_ylabel()


@pytest.mark.parametrize("draw", DRAWERS)
def test_nothing_to_draw_draws_nothing(view: StudyView, draw) -> None:
    assert draw(nothing(view), WIDE) is None


@pytest.mark.parametrize("draw", DRAWERS)
def test_one_configuration_can_be_drawn(view: StudyView, draw) -> None:
    best = view.rows[0]
    one = replace(
        view,
        rows=(best,),
        curves=tuple(curve for curve in view.curves if curve.config == best.config)[:1],
        finalists=view.finalists[:1],
        schedules=view.schedules[:1],
    )
    assert len(to_svg(draw(one, WIDE), name="one", label="one")) > 1000


def test_a_line_stands_for_every_run(view: StudyView) -> None:
    figure = figures.draw_loss_curves(view, WIDE)
    assert figure is not None
    drawn = [tuple(line.get_ydata()) for line in figure.axes[0].get_lines()]
    assert sorted(curve.losses for curve in view.curves) == sorted(drawn)


def test_losses_that_are_no_numbers_are_left_out_of_a_curve(view: StudyView) -> None:
    curve = view.curves[0]
    broken = replace(curve, losses=(*curve.losses[:2], math.nan, math.inf, *curve.losses[4:]))
    figure = figures.draw_loss_curves(replace(view, curves=(broken,)), WIDE)
    assert figure is not None
    assert all(math.isfinite(limit) for limit in figure.axes[0].get_ylim())
    empty = replace(curve, losses=(math.nan,) * len(curve.losses))
    assert figures.draw_loss_curves(replace(view, curves=(empty,)), WIDE) is None


def test_learning_rates_stand_at_octaves(view: StudyView) -> None:
    figure = figures.draw_lr_curve(view, WIDE)
    assert figure is not None
    octaves = [math.log2(tick) for tick in figure.axes[0].get_xticks()]
    assert octaves == [round(octave) for octave in octaves]
    low, high = figure.axes[0].get_xlim()
    assert all(low <= row.peak_lr <= high for row in view.rows if row.peak_lr)


def test_every_schedule_has_its_mark_in_the_legend(view: StudyView) -> None:
    figure = figures.draw_lr_curve(view, WIDE)
    assert figure is not None
    assert {row.schedule for row in view.rows} <= set(texts(figure))
    assert any("diverged" in text for text in texts(figure))


def test_the_margin_is_drawn_to_scale(view: StudyView) -> None:
    assert view.summary is not None
    figure = figures.draw_finalists(view, WIDE)
    assert figure is not None
    edges = [
        patch.get_extents().transformed(figure.axes[0].transData.inverted()).x1
        for patch in figure.axes[0].patches
    ]
    assert edges == [pytest.approx(view.summary.delta)]
