"""The blocks of code in the documents, which tests run as a reader would."""

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


class Block(NamedTuple):
    """A block of code in a document."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Its file's name, where its first line is a comment that states one."""
        match = re.match(r"# ([\w./-]+\.(?:py|yaml))\n", self.text)
        return match[1] if match else ""


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks in these languages, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        if match[1] in languages
    ]


def shown(page: str, name: str) -> dict[str, Any]:
    """A definition in the Python file of that name, as a page of docs shows it."""
    (text,) = (block.text for block in blocks(ROOT / "docs" / page, "python") if block.name == name)
    scope: dict[str, Any] = {"__name__": Path(name).stem}
    exec(text, scope)
    return scope
