"""The template engine, its filters, and the Content-Security-Policy of every page."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from functools import cache, lru_cache, partial
from gzip import compress
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from ....protocols.quotes import MARKS, marked
from ....protocols.tags import pairs
from ....protocols.transcript import Quote
from ...display.text import CONTROL, counted, dollars, printable, signed
from .links import Links

MAX_DIFF_WORDS, MAX_DIFF_TEXT = 2_500, 25_000
"""Longest speech, in words and in characters, that is compared with the other world's."""

MIN_COMMON_WORDS = 3
"""Length of the shortest run of words that counts as common to both."""

_WORD = re.compile(r"\S+")


class TextMark(NamedTuple):
    """A stretch of a text, and the class that it is shown with."""

    start: int
    end: int
    kind: str


def quoted(text: str, quotes: Sequence[Quote]) -> tuple[str, list[TextMark]]:
    """A speech without our tags, and the quotes that were looked up in it."""
    parts: list[str] = []
    marks: list[TextMark] = []
    length = end = 0
    told = marked(text, quotes)
    # No model can write these tags: they are escaped before a speech is one.
    for tag, last in pairs(told, MARKS.values()) if quotes else ():
        parts += [told[end : tag.start], told[tag.end : last.start]]
        start = length + tag.start - end
        length = start + last.start - tag.end
        marks.append(TextMark(start, length, tag.name))
        end = last.end
    return "".join([*parts, told[end:]]), marks


def differing(text: str, other: str) -> list[TextMark]:
    """The stretches of `text` that are not in `other`, word by word."""
    if max(len(text), len(other)) > MAX_DIFF_TEXT:
        return []
    ours = list(_WORD.finditer(text))
    # Compared once for both: each marks what the other has not.
    one, two = sorted((text, other))
    marks, done = [], 0
    for starts in _common_runs(one, two):
        start, size = starts[0 if text == one else 1], starts[2]
        # A word or two in common, such as "of the", say nothing.
        if size >= MIN_COMMON_WORDS or start == len(ours):
            if start > done:
                marks.append(TextMark(ours[done].start(), ours[start - 1].end(), "differs"))
            done = start + size
    return marks


@lru_cache(64)
def _common_runs(one: str, two: str) -> list[Match]:
    """(first word in one, in the other, number of words) of the common parts of two texts; the last
    one is their ends. Empty for texts that are too long."""
    words = _WORD.findall(one), _WORD.findall(two)
    if max(map(len, words)) > MAX_DIFF_WORDS:
        return []
    return SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()


def shown(text: str, marks: Iterable[TextMark] = (), most: int | None = None) -> Markup:
    """`text` as it may stand in a page. most: bytes of markup, about, after which it is cut."""
    marks = list(marks)
    whole = Markup("").join(_pieces(text, marks))
    if most is None or len(whole) <= most:
        return whole
    kept = max(most * len(text) // len(whole), 1)
    left = len(text) - kept
    rest = Markup('<span class="more">… {} more characters</span>').format(f"{left:,}")
    return Markup("").join([*_pieces(text[:kept], marks), rest])


def _pieces(text: str, marks: Sequence[TextMark]) -> Iterator[Markup]:
    every = [
        *marks,
        *(TextMark(found.start(), found.end(), "ctl") for found in CONTROL.finditer(text)),
    ]
    opens: dict[int, list[str]] = {}
    closes: dict[int, list[str]] = {}
    for start, end, kind in every:
        opens.setdefault(start, []).append(kind)
        closes.setdefault(min(end, len(text)), []).append(kind)
    cuts = sorted({0, len(text), *(n for n in (*opens, *closes) if n < len(text))})
    within: list[str] = []
    for start, end in pairwise(cuts):
        for kind in closes.get(start, ()):
            within.remove(kind)
        within += opens.get(start, ())
        piece = escape(printable(text[start:end]))
        if within:
            kinds = " ".join(dict.fromkeys(within))
            yield Markup('<span class="{}">{}</span>').format(kinds, piece)
        else:
            yield piece


SHEETS = ("base.css", "table.css", "base.js")
"""Stylesheets and scripts of most pages."""
READER = ("base.css", "reader.css", "base.js")

EVERY = tuple(dict.fromkeys((*SHEETS, *READER)))


def page(
    template: str,
    links: Links,
    *,
    title: str,
    sheets: Sequence[str] = SHEETS,
    **values: Any,
) -> str:
    """One whole page. template, sheets: names of our files, the template's without its ending; of
    an extension's, `package:path`."""
    return (
        _environment()
        .get_template(f"{template}.html")
        .render(
            links=links,
            title=title,
            styles=[each for each in sheets if each.endswith(".css")],
            scripts=[each for each in sheets if each.endswith(".js")],
            # Safe to mark: neither contains text from models.
            static=lambda name: Markup(static(name)),
            policy=policy(links.connects, links.shared, (*EVERY, *sheets)),
            **values,
        )
    )


def part(template: str, macro: str, *arguments: Any) -> Markup:
    """The output of one macro of a template, as a part of a page."""
    module = _environment().get_template(f"{template}.html").module
    found: Markup = getattr(module, macro)(*arguments)
    return found


def packed(text: bytes) -> str:
    """A text as the script of a site unpacks it: gzip in base 64, of equal texts the same."""
    return b64encode(compress(text, mtime=0)).decode()


@cache
def policy(connects: bool, shared: bool = False, sheets: tuple[str, ...] = EVERY) -> str:
    """The Content-Security-Policy: our own styles and scripts by their hashes, and nothing else.

    connects: pages of a server, which may send forms to it and listen to its events. shared: pages
    of a site, whose styles, scripts and texts lie in the same folder, on a disk or a web server.
    """
    own = {
        ending: "'self' file:"
        if shared
        else " ".join(_hash(name) for name in dict.fromkeys(sheets) if name.endswith(ending))
        for ending in (".css", ".js")
    }
    rules = [
        "default-src 'none'",
        f"style-src {own['.css']}",
        f"script-src {own['.js']}",
        "img-src data:",
        "base-uri 'none'",
        *(("connect-src 'self'", "form-action 'self'") if connects else ("form-action 'none'",)),
    ]
    return "; ".join(rules)


@cache
def static(name: str) -> str:
    """A stylesheet or a script."""
    return _text("static", name)


def _hash(name: str) -> str:
    return f"'sha256-{b64encode(sha256(static(name).encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    from .rendered import rendered

    environment = Environment(
        loader=FunctionLoader(partial(_text, "templates")),
        autoescape=True,
        # For texts and attributes; Markup went through `shown` already.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "signed": typeset,
        "shown": shown,
        "rendered": rendered,
        "counted": counted,
        "count": lambda value: f"{value:,}",
        "dollars": dollars,
        "rounded": lambda value: f"{value:.3g}" if isinstance(value, float) else str(value),
        "fraction": fraction,
        "share": lambda value: f"{value:.0%}",
        "significance": lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}",
    }
    environment.globals |= {"zip": zip, "pages_near": pages_near}
    return environment


def _text(folder: str, name: str) -> str:
    """A file of ours, in the folder of its kind; or `package:path`."""
    package, _, path = name.rpartition(":")
    place = files(package) if package else files("oversight.engine.views.pages").joinpath(folder)
    return place.joinpath(path).read_text(encoding="utf-8")


def pages_near(page: int, pages: int) -> list[int | None]:
    """The numbers of pages that a page links to: the first, the last and those around it; None
    for a gap."""
    near = sorted({0, pages - 1, *range(max(0, page - 3), min(pages, page + 4))})
    found: list[int | None] = []
    for before, each in zip([0, *near], near, strict=False):
        found += [None, each] if each - before > 1 else [each]
    return found


def fraction(value: float, sign: bool = False) -> str:
    """A number between -1 and 1 without its leading zero: `.61`, `−.08`."""
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return text.replace("0.", ".", 1).replace("-", "−")


def typeset(value: float | None, digits: int = 2) -> str:
    """A figure with its sign, and with a real minus; – for None and for NaN."""
    return signed(None if value != value else value, digits).replace("-", "−")
