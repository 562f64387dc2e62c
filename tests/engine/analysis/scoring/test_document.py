import re
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_every_test_that_the_statistics_page_names_is_there() -> None:
    page = (ROOT / "docs/statistics.md").read_text()
    tests = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", tests, re.MULTILINE))
    on_page = set(re.findall(r"`(test_\w+)`", page))
    assert len(on_page) >= 7 and not on_page - defined
