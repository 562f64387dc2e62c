"""The template engine, its filters, and the Content-Security-Policy of every page."""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache, partial
from gzip import compress
from hashlib import sha256
from importlib.resources import files
from typing import Any

import orjson
from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from ...display.text import counted, dollars, printable, signed
from .links import Links
from .marked_text import shown

SHEETS = ("base.css", "table.css", "base.js")
"""Stylesheets and scripts of most pages."""
READER = ("base.css", "reader.css", "base.js")

EVERY = tuple(dict.fromkeys((*SHEETS, *READER)))


def inline_json(data: object) -> Markup:
    """JSON for a script element, in which no text may look like its end."""
    return Markup(orjson.dumps(data).decode().replace("<", "\\u003c"))


def page(
    template: str, links: Links, *, title: str, sheets: Sequence[str] = SHEETS, **values: Any
) -> str:
    """A page. template, sheets: names of our files, without the ending for the template; files of
    an extension are given as `package:path`."""
    return compiled(template).render(
        links=links,
        title=title,
        styles=[name for name in sheets if name.endswith(".css")],
        scripts=[name for name in sheets if name.endswith(".js")],
        # Safe to mark: neither contains text from models.
        static=lambda name: Markup(static(name)),
        policy=policy(links.connects, links.shared, (*EVERY, *sheets)),
        **values,
    )


def compiled(template: str) -> Template:
    """A template of ours, which takes a while the first time."""
    return _environment().get_template(f"{template}.html")


def part(template: str, macro: str, *arguments: Any) -> Markup:
    """The output of one macro of a template, as a part of a page."""
    module = compiled(template).module
    output: Markup = getattr(module, macro)(*arguments)
    return output


def packed(text: bytes) -> str:
    """A text that the script of a site unpacks: gzip in base 64, the same for equal texts."""
    return b64encode(compress(text, mtime=0)).decode()


@cache
def policy(connects: bool, shared: bool = False, sheets: tuple[str, ...] = EVERY) -> str:
    """The Content-Security-Policy: our own styles and scripts by their hashes, and nothing else.

    connects: pages of a server, which may send forms to it and listen to its events. shared: pages
    of a site, whose styles, scripts and texts lie in the same folder, on a disk or a web server."""
    sources = {
        ending: "'self' file:"
        if shared
        else " ".join(_hash(name) for name in dict.fromkeys(sheets) if name.endswith(ending))
        for ending in (".css", ".js")
    }
    rules = [
        "default-src 'none'",
        f"style-src {sources['.css']}",
        f"script-src {sources['.js']}",
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
    """The numbers of linked pages: the first, the last and the nearest; None for a gap."""
    near = sorted({0, pages - 1, *range(max(0, page - 3), min(pages, page + 4))})
    shown_pages: list[int | None] = []
    for before, number in zip([0, *near], near, strict=False):
        shown_pages += [None, number] if number - before > 1 else [number]
    return shown_pages


def fraction(value: float, sign: bool = False) -> str:
    """A number between -1 and 1 without its leading zero: `.61`, `−.08`."""
    text = f"{value:+.2f}" if sign else f"{value:.2f}"
    return text.replace("0.", ".", 1).replace("-", "−")


def typeset(value: float | None, digits: int = 2) -> str:
    """A number with its sign and a real minus; – for None and NaN."""
    return signed(None if value != value else value, digits).replace("-", "−")
