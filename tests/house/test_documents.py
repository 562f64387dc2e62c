"""The documents are right: their code is typed, their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import PAGES, ROOT, blocks


@pytest.mark.wire
def test_the_python_of_the_documents_passes_mypy_strict(tmp_path: Path) -> None:
    written: dict[str, str] = {}
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            if "\n" in block.text and re.search(r"^(from|import) ", block.text, re.MULTILINE):
                file = tmp_path / f"{page.stem.lower().replace('-', '_')}_{number}.py"
                file.write_text(block.text)
                written[file.name] = f"{page.name}:{block.line}"
    assert len(written) >= 6
    words = ["-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml", "--cache-dir"]
    done = subprocess.run(
        [sys.executable, *words, ROOT / ".mypy_cache", *sorted(written)],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{written}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_to_what_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, f"{page.name}: {link}; there are {sorted(slugs)}"
