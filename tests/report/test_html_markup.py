"""Text stays text, whatever it is made of."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.report.markup import Markup, element, printable, table, together
from lastgood.report.svg import inlined


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text())
def test_text_is_neither_element_nor_lost(text):
    found = read(element("p", text))
    assert found.tags == ["p"]
    assert found.text == printable(text)


@given(st.text())
def test_an_attribute_stays_in_its_quotes(text):
    found = read(element("p", title=text))
    assert found.attributes == [("title", printable(text))]


@pytest.mark.parametrize("text", ["ärger", "作業", "data ✓", "a\nb", "C:\\x"])
def test_what_people_write_is_shown_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize("text", ["\x00", "\x1b[2J", "\u202e", "\ud800", "\u2028"])
def test_what_plays_tricks_becomes_an_escape_that_can_be_written(text):
    shown = element("p", f"a{text}b")
    assert text not in shown
    shown.encode()


def test_only_markup_is_markup():
    assert element("p", Markup("<b>x</b>"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert together(["a&b", None, "", element("br")]) == "a&amp;b<br>"


def test_a_table_has_headers_a_caption_and_can_be_reached_by_keyboard():
    found = read(table("Which & what", ["A", "B"], [["one", 1], ["two", 2]], numbers=[1]))
    assert found.tags == [
        "div",
        "table",
        "caption",
        "thead",
        "tr",
        "th",
        "th",
        "tbody",
        "tr",
        "th",
        "td",
        "tr",
        "th",
        "td",
    ]
    assert found.attributes.count(("scope", "col")) == 2 and found.attributes.count(("scope", "row")) == 2
    assert ("tabindex", "0") in found.attributes and ("aria-label", "Which & what") in found.attributes


SVG = """<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg"
 xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 10.126 5"><metadata>made</metadata>
<defs><style>*{}</style></defs><g id="figure_1"><defs><path id="m1" d="M 0 0
L 4 0 L 4 2.345 z" style="stroke: #0001fe"/></defs><g clip-path="url(#c1)"><use xlink:href="#m1" x="1.2345" y="2" style="fill: #0001fe"/><use xlink:href="#m1" x="3" y="2" style="fill: #0001fe"/></g>
<text style="font-size: 12px; font-family: 'DejaVu Sans'; fill: #0002fe" transform="rotate(-0 1 1)">a &lt; b</text></g></svg>"""


def test_a_picture_takes_names_colours_and_font_from_the_page():
    made = inlined(
        SVG, prefix="p", colours={"#0001fe": "ink", "#0002fe": "quiet"}, title="T<", description="D", class_="wide"
    )
    assert made == (
        '<svg class="chart wide" viewBox="0 0 10.1 5" role="img" aria-labelledby="p-title" aria-describedby="p-desc">'
        '<title id="p-title">T&lt;</title><desc id="p-desc">D</desc>'
        '<defs><path id="p-m1" d="M0 0H4V2.3z" style="stroke:var(--ink)"/></defs>'
        '<g clip-path="url(#p-c1)" style="fill:var(--ink)"><use href="#p-m1" x="1.2" y="2"/><use href="#p-m1" x="3" y="2"/></g>'
        '<text style="font-size:12px;fill:var(--quiet)">a &lt; b</text></svg>'
    )
