import re
from xml.etree import ElementTree

from reports.svg import COLOURS, NARROW, WIDE, add_legend, new_axes, to_svg

HOSTILE = '</text><script>alert("$x")</script> id="y" $\\frac{'


def drawn(name: str = "one", text: str = "loss") -> str:
    figure, axes = new_axes(WIDE, text, "y")
    (line,) = axes.plot([1, 2, 3], [1, 4, 2], color=COLOURS["blue"], marker="o")
    add_legend(figure, WIDE, [(text, line)])
    return str(to_svg(figure, name=name, label=text))


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(
        svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1)
    )


def test_colours_and_fonts_come_from_the_page() -> None:
    svg = drawn()
    assert "var(--blue)" in svg
    assert not set(re.findall(r"#[0-9a-f]{6}", svg)) & set(COLOURS.values())
    assert "font-family" not in svg
    assert "<style" not in svg


def test_figures_of_one_page_share_no_identifier() -> None:
    ids = [set(re.findall(r'\bid="([^"]+)"', drawn(name))) for name in ("a", "b")]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert all(name.startswith("a-") for name in ids[0])


def test_every_reference_within_a_figure_is_met() -> None:
    svg = drawn()
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    used = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
    assert used
    assert used <= ids


def test_hostile_text_stays_text() -> None:
    root = parsed(drawn(text=HOSTILE))
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert HOSTILE in [element.text for element in root.iter() if element.tag.endswith("text")]
    assert root.get("aria-label") == HOSTILE


def test_the_same_figure_is_the_same_text() -> None:
    assert drawn() == drawn()


def test_a_narrow_figure_is_for_phones() -> None:
    assert NARROW.is_narrow
    assert not WIDE.is_narrow
