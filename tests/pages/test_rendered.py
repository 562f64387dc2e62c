"""Markdown and formulas of models become markup from a fixed list of tags."""

import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import pytest

from oversight.engine.views.pages import answer, marked_text, transcript_view
from oversight.engine.views.pages.rendered import (
    FORMULA_ATTRIBUTES,
    FORMULA_TAGS,
    TAGS,
    _rendered,
    rendered,
)
from tests.sessions import sessions
from tests.tables import expressions

ATTRIBUTES = {*FORMULA_ATTRIBUTES, "display", "width", "class", "start"}
PIECES = (
    *("**", "*", "_", "`", "```\n", "~~~", "# ", "\n", "\n\n", "- ", "1. ", "> ", "|", "|-|-|\n"),
    *("$", "$$", "\\(", "\\)", "\\[", "\\]", "{", "}", "^", "_", "\\frac", "\\sqrt", "\\text{"),
    *("\\begin{matrix}", "\\end{matrix}", "&", "\\\\", "\\left(", "\\right)", "\\color{red}"),
    *("\\href{javascript:alert(1)}{x}", "\\style{color:red}{x}", "\\class{a}{b}", "\\phantom{x}"),
    *("<script>", "</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))"),
    *("![a](http://x.y/z)", "<http://x.y>", "[r]: http://x.y 'title'\n", "[r]", "&#x202e;", "&lt;"),
    *("\u202e", "\ufdd0", "\ufddf", "\x00", "\ud800", '"', "'", "a", "b c", "1", "alert(1)", "é"),
)


class Tags(HTMLParser):
    """Collects tags and attributes, and the text between them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@sessions(Path(__file__).with_name("rendered.md"))
def test_text_is_rendered_as_this_markup(session, request):
    names = vars(marked_text) | vars(answer) | vars(transcript_view) | globals()
    session.check(request, expressions(names), names)


@pytest.mark.wire
def test_random_texts_have_no_other_tags_and_keep_their_letters() -> None:
    random, kinds = Random(1), set()
    for _ in range(10_000):
        text = "".join(random.choices(PIECES, k=random.randint(1, 14)))
        tags = Tags(rendered(text))
        assert tags.names <= TAGS | FORMULA_TAGS, text
        assert tags.attributes <= ATTRIBUTES, text
        kinds |= tags.names
    assert {"math", "table", "pre", "em", "ol", "blockquote"} <= kinds


def calls_of(work: Callable[[], object]) -> int:
    """Number of Python and C calls in `work`."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.wire
@pytest.mark.parametrize(
    "piece",
    [
        *("**a", "*_", "[", "`", "`a``", "> ", "- ", "$a ", "\\[", "|a", "<", "a\n=\n", "$x$ "),
        *("1. a\n", "- a\n  ", "![", "&#x", "**a** ", "$\\frac{1}{2}$ "),
    ],
)
def test_work_grows_in_proportion_to_the_text(piece: str) -> None:
    short, long = (piece * (size // len(piece)) for size in (1_000, 4_000))
    _rendered.cache_clear()
    first, second = (calls_of(lambda text=text: rendered(text)) for text in (short, long))
    assert second <= 6 * first + 1_000
    assert calls_of(lambda: rendered(piece * 100_000)) < 10, "longer texts are not parsed"
