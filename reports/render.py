"""A study to one self-contained HTML page."""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports.blocks import Section
from reports.numbers import shown
from reports.sections import SECTIONS
from reports.view import StudyView, make_view
from simulator.records.reader import StudyReader
from simulator.records.writing import write_atomically

__all__ = ["Page", "render_report", "render_view", "write_report"]

_TEMPLATES = Path(__file__).parent / "templates"
_SEVERITY_WORDS = {"info": "Note", "amber": "Caution", "red": "Serious"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the template lays out."""

    title: str
    question: str
    sections: tuple[Section, ...]


def render_report(study: StudyReader) -> str:
    """Return the page of a study, ended or not.

    Raises
    ------
    StudyError
        If a file of the study is not what it must be.
    """
    return render_view(make_view(study))


def write_report(study: StudyReader, path: Path | None = None) -> Path:
    """Write the page of a study into its directory, or to ``path``, and return where it lies.

    Raises
    ------
    StudyError
        If a file of the study is not what it must be.
    OSError
        If the disk is full or may not be written; an older page is then untouched.
    """
    path = path or study.layout.report
    write_atomically(path, render_report(study))
    return path


def render_view(view: StudyView) -> str:
    """Return the page of a view; every text in it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = Page(
        title=view.name or "A study without a name",
        question=_question(view),
        sections=tuple(section(view) for section in SECTIONS),
    )
    template = environment.get_template("report.html.j2")
    return template.render(page=page, words=_SEVERITY_WORDS)


def _question(view: StudyView) -> str:
    width = "A smaller copy"
    if view.width_factor:
        width = f"A copy of 1/{view.width_factor:g} of its width"
    return (
        f"With which hyperparameters should {shown(view.target_name)} be trained? {width} was "
        f"trained {view.num_runs_ended} times under {len(view.rows)} configurations; this page "
        "names the best and says how sure that is."
    )
