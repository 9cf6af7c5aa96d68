import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.numbers import learning_rate, loss
from reports.render import render_report, write_report
from simulator.records.layout import StudyLayout
from simulator.records.reader import StudyReader
from simulator.specs.errors import StudyError
from tests.reports.studies import Options, write_head, write_study

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}\u202e\x00"
HOSTILE_SCHEDULE = "<b onclick=x>$\\frac{&amp;"
VOID = {"meta", "link", "br", "img", "input", "hr", "path", "use", "rect"}


class Page(HTMLParser):
    """What a page consists of; complains about tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(root: Path) -> Page:
    return Page(render_report(StudyReader(root)))


@pytest.fixture(scope="module")
def page(study: StudyReader) -> Page:
    return Page(render_report(study))


def assert_safe(page: Page) -> None:
    assert page.open == []
    assert not {"script", "img", "iframe", "object", "b-x"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_the_page_asks_for_nothing_outside_itself(page: Page) -> None:
    assert_safe(page)
    for name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "action", "data"):
            assert value is not None
            assert value.startswith(("#", "data:,")), (name, value)
    assert not [value for _, value in page.attributes if value and "url(http" in value]


def test_every_identifier_is_unique(page: Page) -> None:
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_every_link_within_the_page_leads_somewhere(page: Page) -> None:
    ids = {value for name, value in page.attributes if name == "id"}
    links = {
        value[1:]
        for name, value in page.attributes
        if name.endswith("href") and value and value.startswith("#")
    }
    assert links <= ids


def test_numbers_on_the_page_are_the_summarys(study: StudyReader, page: Page) -> None:
    summary = study.summary
    assert summary is not None
    for found in (*summary.top, *summary.ties, *summary.others):
        assert loss(found.mean_loss) in page.text
    for found in summary.top:
        assert found.recipe is not None
        assert learning_rate(found.recipe.matrix_lr) in page.text
        assert learning_rate(found.recipe.weight_decay) in page.text
    assert summary.statement in page.text
    assert f"{summary.delta:.4f} nats" in page.text
    assert all(flag.message in page.text for flag in summary.flags)  # sentences already


def test_every_run_can_be_found_from_the_page(study: StudyReader, page: Page) -> None:
    assert all(fingerprint in page.text for fingerprint in study.runs)
    assert study.head.code_version in page.text
    assert "3f1c" * 16 in page.text


def test_every_figure_has_words_for_those_who_cannot_see_it(page: Page) -> None:
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert page.tags.count("svg") == 8
    assert all(labels)


def test_hostile_content_stays_content(tmp_path: Path) -> None:
    options = Options(
        name=HOSTILE, target_name=HOSTILE * 300, labels={0: HOSTILE}, num_steps=30, num_configs=5
    )
    layout = StudyLayout(write_study(tmp_path, options))
    for path in (layout.ledger, layout.summary):
        text = path.read_text()
        assert "wsd20_sqrt" in text
        path.write_text(text.replace('"wsd20_sqrt"', json.dumps(HOSTILE_SCHEDULE)))
    page = page_of(tmp_path)
    assert_safe(page)
    assert "<script>alert(1)</script>" in page.text
    assert HOSTILE_SCHEDULE in page.text
    assert "{{ 7*7 }}" in page.text
    assert len(render_report(StudyReader(tmp_path))) < 400_000


def test_an_empty_study_says_what_is_missing(tmp_path: Path) -> None:
    write_head(tmp_path, Options())
    page = page_of(tmp_path)
    assert_safe(page)
    assert "No decision yet" in page.text
    assert "No run has completed" in page.text
    assert "The ledger holds no trial yet" in page.text
    assert page.text.count("Nothing to draw yet") == 4


def test_zero_complete_trials_are_reported_with_their_reasons(tmp_path: Path) -> None:
    options = Options(num_configs=3, num_steps=30, statuses=dict.fromkeys(range(3), "diverged"))
    page = page_of(write_study(tmp_path, options))
    assert_safe(page)
    assert "No run has completed" in page.text
    assert "#1: diverged. Training loss was not finite" in page.text


def test_a_study_under_way_shows_what_there_is(tmp_path: Path) -> None:
    write_study(tmp_path, Options(num_configs=4, num_steps=30, statuses={}, has_summary=False))
    page = page_of(tmp_path)
    assert_safe(page)
    assert "Lowest loss so far" in page.text
    assert "provisional" in page.text


@pytest.mark.parametrize("num_configs", [1, 2])
@pytest.mark.parametrize("num_seeds", [1, 2])
def test_few_trials_and_seeds_render(tmp_path: Path, num_configs: int, num_seeds: int) -> None:
    options = Options(num_configs=num_configs, num_seeds=num_seeds, num_steps=30, statuses={})
    page = page_of(write_study(tmp_path, options))
    assert_safe(page)
    assert ("Not measured: one seed only." in page.text) == (num_seeds == 1)


def test_a_diverging_runs_last_values_do_no_harm(tmp_path: Path) -> None:
    write_study(tmp_path, Options(num_configs=3, num_steps=50, statuses={}))
    path = next(tmp_path.glob("runs/*/evals.jsonl"))
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    last["loss"] = dict.fromkeys(last["loss"], float("nan"))
    path.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    assert_safe(page_of(tmp_path))


def test_an_older_page_survives_a_study_that_cannot_be_read(tmp_path: Path) -> None:
    layout = StudyLayout(write_study(tmp_path, Options(num_configs=2, num_steps=30, statuses={})))
    assert write_report(StudyReader(tmp_path)) == layout.report
    before = layout.report.read_text()
    layout.summary.write_text("{")
    with pytest.raises(StudyError, match=r"summary\.json"):
        write_report(StudyReader(tmp_path))
    assert layout.report.read_text() == before


def test_a_page_can_be_written_elsewhere(study: StudyReader, tmp_path: Path) -> None:
    assert write_report(study, tmp_path / "page.html") == tmp_path / "page.html"
    assert not study.layout.report.exists()
