"""Markdown and LaTeX of models as markup from a fixed list of tags.

Links, images, entities and HTML stay as they are typed, so no address comes from a text. A text
that loses a letter when it is rendered, such as a table row that is too long, is shown raw."""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from html import unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup, escape

from ...display.text import CONTROL
from .marked_text import TextMark, shown

MAX_RENDERED, MAX_FORMULA, MAX_MARKUP = 20_000, 2_000, 200_000
"""Maximum characters of a rendered text, of one formula, and of the resulting markup."""

MAX_CELLS = 100_000
"""Maximum product of the bars and the lines of a text, which bounds the fields of its tables."""

MAX_NESTING, MAX_SPACE = 40, 4.0
"""Maximum depth of braces in a formula, and width of a space in it, in em."""

_TAGS = "p ul ol li blockquote pre code em strong table thead tbody tr td hr br span"
_FORMULA_TAGS = (
    "math mrow mi mn mo mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover "
    "mtable mtr mtd mstyle"
)
TAGS, FORMULA_TAGS = frozenset(_TAGS.split()), frozenset(_FORMULA_TAGS.split())
"""Tags of rendered Markdown and of formulas. Other tags hide text or do not work in browsers."""

_CHILDREN = {"mfrac": 2, "mroot": 2, "msup": 2, "msub": 2, "mover": 2, "munder": 2} | {
    "msubsup": 3,
    "munderover": 3,
}
"""The number of children that a tag needs."""

FORMULA_ATTRIBUTES = {
    "stretchy": ("true", "false"),
    "fence": ("true", "false"),
    "displaystyle": ("true", "false"),
    "form": ("prefix", "postfix", "infix"),
    "mathvariant": ("normal", "bold", "italic", "double-struck", "script", "fraktur"),
    "linethickness": ("0",),
}
"""The attributes of formulas with their values."""

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_PLAIN = {"paragraph_open", "paragraph_close", "inline", "text", "softbreak"}
_LEAVES = {"text", "code_inline", "code_block", "fence", "formula"}

_KINDS = ("verified", "unverified", "unchecked")
_END = "\ufddf"
_STARTS = {chr(0xFDD0 + n): kind for n, kind in enumerate(_KINDS)}
"""Noncharacters that mark quotes until the text is parsed. Texts that hold one are shown raw."""
_NO_SENTINELS = dict.fromkeys(map(ord, (*_STARTS, _END)))


def rendered(text: str, marks: Iterable[TextMark] = ()) -> Markup:
    """`text` as rendered Markdown; empty if it has no Markdown, is too long or does not parse."""
    return _rendered(text, tuple(mark for mark in marks if mark.kind in _KINDS))


@lru_cache(256)
def _rendered(text: str, marks: tuple[TextMark, ...]) -> Markup:
    if len(text) > MAX_RENDERED or text.count("|") * text.count("\n") > MAX_CELLS:
        return Markup("")
    if text.translate(_NO_SENTINELS) != text:
        return Markup("")
    tokens = _parser().parse(_with_sentinels(text, marks))
    if {token.type for token in _flat(tokens)} <= _PLAIN:
        return Markup("")
    writer = _Writer()
    for token in _flat(tokens):
        writer.add(token)
    complete = not writer.kind and writer.closed == len(marks)
    markup = "".join(writer.parts)
    if not complete or len(markup) > MAX_MARKUP or _letters(writer.leaves) != _letters([text]):
        return Markup("")
    # Safe: tags come from this module, and every text in between is escaped.
    return Markup(markup)


def _letters(texts: Iterable[str]) -> str:
    return "".join(letter for text in texts for letter in text if letter.isalpha())


def _with_sentinels(text: str, marks: Sequence[TextMark]) -> str:
    starts = {kind: letter for letter, kind in _STARTS.items()}
    parts, end = [], 0
    for mark in sorted(marks):
        parts += [text[end : mark.start], starts[mark.kind], text[mark.start : mark.end], _END]
        end = mark.end
    return "".join([*parts, text[end:]])


def _flat(tokens: Sequence[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        # Only inline tokens have children, one level deep.
        yield from token.children or ()


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["link", "image", "autolink", "entity", "reference", "html_block"])
    parser.disable("html_inline")
    parser.inline.ruler.before("escape", "formula", _formula)
    return parser


def _formula(state: StateInline, silent: bool) -> bool:
    """The rule that finds a formula at the current position."""
    for opening, closing in _DELIMITERS:
        start = state.pos + len(opening)
        if not state.src.startswith(opening, state.pos):
            continue
        end = _end_of_formula(state.src, start, min(state.posMax, start + MAX_FORMULA), closing)
        if end > start:
            if not silent:
                token = state.push("formula", "math", 0)
                token.content, token.markup = state.src[start:end], opening
            state.pos = end + len(closing)
            return True
    return False


def _end_of_formula(text: str, start: int, most: int, closing: str) -> int:
    """Index of the closing delimiter; -1 if absent. A single `$` may also be a currency."""
    end = text.find(closing, start, most)
    while closing == "$" and end > start and text[end - 1] == "\\":
        end = text.find(closing, end + 1, most)
    if closing == "$" and end > start:
        spaced = text[start].isspace() or text[end - 1].isspace()
        return -1 if spaced or text[end + 1 : end + 2].isdigit() else end
    return end


class _Writer:
    """Builds markup from tokens, one after another."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.leaves: list[str] = []
        self.kind = ""
        """Kind of the quote that is open."""
        self.closed = 0
        """Number of quotes that were closed."""

    def add(self, token: Token) -> None:
        if token.type in _LEAVES:
            self._leaf(token)
        elif token.type in ("softbreak", "hardbreak"):
            self.parts.append("<br>")
        elif token.type == "hr":
            self.parts.append("<hr>")
        elif token.type.startswith("heading_"):
            # Headings of a text would break the outline of the page.
            self.parts.append("<p><strong>" if token.nesting == 1 else "</strong></p>")
        elif token.tag == "th":
            self.parts.append("<td><strong>" if token.nesting == 1 else "</strong></td>")
        elif token.nesting and not token.hidden and token.tag in TAGS:
            start = token.attrGet("start")
            number = f' start="{start}"' if isinstance(start, int) else ""
            self.parts.append(f"<{token.tag}{number}>" if token.nesting == 1 else f"</{token.tag}>")

    def _leaf(self, token: Token) -> None:
        if token.type == "formula":
            self._math(token)
        elif token.type in ("fence", "code_block"):
            if info := token.info.strip():
                self._text(info, "p")
            self._text(token.content, "pre", "code")
        else:
            self._text(token.content, *["code"] * (token.type == "code_inline"))

    def _text(self, content: str, *tags: str) -> None:
        """A text within these tags, from the outermost on."""
        self.parts += [f"<{tag}>" for tag in tags]
        start = 0
        for n, letter in enumerate(content):
            if letter == _END or letter in _STARTS:
                self._piece(shown(content[start:n]))
                self._sentinel(letter)
                start = n + 1
        self._piece(shown(content[start:]))
        self.parts += [f"</{tag}>" for tag in reversed(tags)]
        self.leaves.append(content)

    def _piece(self, piece: Markup) -> None:
        if piece:
            marked = f'<span class="{self.kind} part">{piece}</span>' if self.kind else piece
            self.parts.append(marked)

    def _sentinel(self, letter: str) -> None:
        if letter == _END:
            self.parts.append(f'<span class="{self.kind}"></span>')
            self.closed += 1
        self.kind = _STARTS.get(letter, "")

    def _math(self, token: Token) -> None:
        block = token.markup in ("$$", "\\[")
        latex = token.content.translate(_NO_SENTINELS)
        math = formula(latex, block)
        if latex != token.content or not math:
            self._text(f"{token.markup}{token.content}{dict(_DELIMITERS)[token.markup]}")
            return
        self._piece(math)
        self.leaves.append(latex)


def formula(latex: str, block: bool = False) -> Markup:
    """A formula as MathML; empty if it does not parse or needs a tag that is not allowed."""
    depth = deepest = 0
    for letter in latex:
        depth += (letter == "{") - (letter == "}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING or len(latex) > MAX_FORMULA or CONTROL.search(latex):
        return Markup("")
    try:
        root = convert_to_element(latex, display="block" if block else "inline")
    except Exception:
        # The converter raises errors of many kinds on bad input, and the formula is shown raw.
        return Markup("")
    parts: list[str] = []
    stack: list[Element | str] = [root]
    while stack:
        element = stack.pop()
        if isinstance(element, str):
            parts.append(element)
            continue
        text = unescape(element.text or "")
        complete = len(element) == _CHILDREN.get(element.tag, len(element))
        if element.tag not in FORMULA_TAGS or text.startswith("\\") or element.tail or not complete:
            return Markup("")
        parts.append(f"<{element.tag}{_attributes(element)}>{escape(text)}")
        stack += [f"</{element.tag}>", *reversed(element)]
    markup = "".join(parts)
    return Markup(markup)


def _attributes(element: Element) -> str:
    """The allowed attributes of an element of a formula."""
    if element.tag == "math":
        return f' display="{"block" if element.get("display") == "block" else "inline"}"'
    names = [
        f' {name}="{value}"'
        for name, value in element.attrib.items()
        if value in FORMULA_ATTRIBUTES.get(name, ())
    ]
    width = element.get("width", "").removesuffix("em")
    if element.tag == "mspace" and width.replace(".", "", 1).isdecimal() and width.isascii():
        names.append(f' width="{min(float(width), MAX_SPACE):g}em"')
    return "".join(names)
