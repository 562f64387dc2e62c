"""Words that went: none of them stands where users read: documents, help, pages, printed text."""

import ast
import re
from collections.abc import Iterator

import click
import pytest

from oversight.engine.views.cli.group import oversight
from tests.documents import PAGES, ROOT
from tests.house.weight import ROOMS

GONE = {
    r"captured mass": "label mass",
    r"pseudo-clusters at the ends": "95 % CI",
    r"each by itself\b": "not corrected for … comparisons",
    r"inverse greed": "softmax temperature",
    r"worth [\d.]+ equal": "effective …",
    r"not determined at|\binconclusive\b": "undecided (smallest detectable difference …)",
    r"\bguarded\b": "conservative",
    r"temperature of the provider": "nothing, unless it differs",
    r"tell no answers apart": "not applicable",
    r"luck of a draw": "scored as chance",
    r"[Ww]ho gets the": "the recipient",
    r"worst for the agent": "the agent's worst case",
    r"\bforged\b(?!:)": "spoofed",
    r"\blanded\b|\blands? in\b": "completed",
    r"\bdesk\b": "the pages, or the people",
    r"\bbooks\b": "records",
    r"all from the store": "cached",
    r"into this shell": "activate the environment",
    r"guarantee against the best liar": "soundness guarantee",
    r"[Nn]othing is guessed": "… is never scored as 0.5",
    r"form of an answer (?:tells|give the)": "label leakage",
    r"refusals in words": "verbal refusals",
    r"effort: none +# without": "turn reasoning off",
    r"\bhas out\b|\bare out at\b|out at the vendors": "in flight",
    r"take(?:n|s)? over from": "reused from",
    r"once more": "again",
    r"best content-blind rule": "Most suspicious rule",
    r"more than luck": "significantly",
}
"""A pattern of words that went -> what to say."""

SQL = re.compile(r"\b(?:ORDER BY|SELECT|INTEGER|UPDATE|CREATE)\b")


def _help(command: click.Command, path: str = "oversight") -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=path)
    context.meta["--help-all"] = True
    yield f"{path} --help", command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from _help(inner, f"{path} {name}")


def _printed(code: str) -> Iterator[str]:
    """The texts of a module, without docstrings, bare names and SQL."""
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if " " in text and id(node) not in docstrings and not SQL.search(text):
                yield text


def texts() -> Iterator[tuple[str, str]]:
    """Yield the texts that users read, with their places."""
    yield from ((page.name, page.read_text()) for page in PAGES if page.name != "CHANGELOG.md")
    yield from _help(oversight)
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.html")):
            yield str(file.relative_to(ROOT)), file.read_text()
        for file in sorted((ROOT / room).rglob("*.py")):
            name = str(file.relative_to(ROOT))
            yield from ((name, text) for text in _printed(file.read_text()))


@pytest.mark.wire
def test_users_read_no_word_that_went():
    """All patterns over one reading, which takes a second."""
    read = list(texts())
    assert len(read) > 3000
    places = [
        f"{place}: {text[max(match.start() - 40, 0) : match.end() + 20]!r}; say: {instead}"
        for place, text in read
        for pattern, instead in GONE.items()
        for match in re.finditer(pattern, text)
    ]
    assert places == []


def test_a_word_that_went_would_be_found():
    code = '"""A desk."""\nsay(f"the books of {x}", "desk", "SELECT landed FROM cells")'
    assert list(_printed(code)) == ["the books of "]
