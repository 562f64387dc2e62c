"""Count lines of Python, with the bounds of pyproject.toml: `python -m tests.house.weight`.

`source` is the three packages, `tests` the tests, and `kernel` the files under that heading of
docs/architecture.md. Each has a bound. `--write` lowers the bounds to today's lines. The other
rows have no bound, since a bound per folder would punish moving code."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
ROOMS = ("cache", "protocols", "engine")
_SETTINGS = ROOT / "pyproject.toml"
_SWEEP = """
problems: {bundled: {name: arithmetic, limit: 1}}
agents: sim/strong
judges: sim/weak
protocols: [naive_judge, consultancy, debate]
"""
_RUN = """
import sys
from oversight.engine.__main__ import main
sys.argv = ["oversight", "run", "plain.yaml", "--store", "store"]
try: main()
except SystemExit as left: code = left.code
for name, module in sys.modules.items():
    if name.startswith("oversight."): print(module.__file__, file=sys.stderr)
sys.exit(code)
"""


def weights() -> dict[str, int]:
    """Return the lines of each row: source, tests, kernel, each package, each folder of engine."""
    rows, kernel = Counter[str](), kernel_files()
    for name, count in _lines().items():
        room, _, inner = name.partition("/")
        rows["kernel"] += count if name in kernel else 0
        rows["tests"] += count if room == "tests" else 0
        if room in ROOMS:
            rows["source"] += count
            rows[room] += count
            if room == "engine" and "/" in inner:
                rows[f"engine/{inner.partition('/')[0]}"] += count
    return dict(rows)


def kernel_files() -> list[str]:
    """Return the files of the kernel in reading order."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("## The kernel\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| \[([\w/.]+)\]\(\.\./\1\) \| \w", section, re.MULTILINE)


def plain_run() -> int:
    """Return the lines that a plain run of debate, consultancy and naive judge imports."""
    with TemporaryDirectory() as folder:
        Path(folder, "plain.yaml").write_text(_SWEEP)
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{_RUN}"
        process = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
        )
    modules = (Path(line).resolve() for line in process.stderr.splitlines() if line.endswith(".py"))
    imported = {str(file.relative_to(ROOT)) for file in modules if file.is_file()}
    return sum(count for name, count in _lines().items() if name in imported)


def _lines() -> dict[str, int]:
    listed = subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).split()
    files = [name for name in listed if (ROOT / name).is_file()]
    return {name: len((ROOT / name).read_bytes().splitlines()) for name in files}


def bounds() -> dict[str, int]:
    """Return the most lines that each bounded row may have."""
    return dict(tomllib.loads(_SETTINGS.read_text())["tool"]["weight"])


def write(rows: dict[str, int]) -> None:
    """Lower the bounds to these rows."""
    text = _SETTINGS.read_text()
    for row, most in bounds().items():
        text = re.sub(rf"(?m)^{row} = {most}$", f"{row} = {min(most, rows[row])}", text)
    _SETTINGS.write_text(text)


def main() -> None:
    rows, most = weights(), bounds()
    for row in sorted(rows):
        bound = f"  of {most[row]:>9,}" if row in most else ""
        print(f"{row:24}{rows[row]:>9,}{bound}")
    print(f"{'plain run':24}{plain_run():>9,}")
    if "--write" in sys.argv:
        write(rows)


if __name__ == "__main__":
    main()
