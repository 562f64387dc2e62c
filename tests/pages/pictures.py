"""Pictures of every screen: `python -m tests.pages.pictures FOLDER`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.command_line import oversight
from tests.pages.browser import chromium, served
from tests.pages.runs import HARD


class Screen(NamedTuple):
    name: str
    path: str
    """Behind the address of the server; `{hard}` and `{demo}` stand for the two runs."""
    keys: str = ""
    full: bool = False


SCREENS = (
    Screen("runs", ""),
    Screen("overview", "run/{demo}"),
    Screen("overview-hard", "run/{hard}"),
    Screen("map", "run/{hard}/map"),
    Screen("map-demo", "run/{demo}/map"),
    Screen("problem", "run/{demo}/problem/3"),
    Screen("reader-debate", "run/{demo}/row/12/problem/4"),
    Screen("reader-quotes", "run/{hard}/row/30/problem/2", "d", True),
    Screen("reader-failed", "run/{hard}/row/2/problem/1"),
    Screen("calls", "run/{demo}/row/12/problem/4/calls"),
    Screen("failures", "run/{hard}/failures"),
    Screen("cost", "run/{demo}/cost"),
    Screen("live", "run/{demo}/live"),
    Screen("compare", "compare?a={demo}&b={demo2}"),
    Screen("help", "run/{demo}", "?"),
)


def take(to: Path, only: str = "") -> None:
    """Write every screen, light, dark and on a narrow telephone. only: part of their names."""
    to.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="pictures-") as room:
        place = Path(room)
        (place / "hard.yaml").write_text(HARD)
        oversight("demo", cwd=place)
        oversight("run", "hard.yaml", cwd=place)
        with served(place / "runs") as root, chromium() as browser:
            names = sorted(each.name for each in (place / "runs").iterdir())
            runs = {name.partition("-")[0]: name for name in names}
            runs["demo2"] = runs["demo"]
            for look, scheme, width in (
                ("light", "light", 1280),
                ("dark", "dark", 1280),
                ("narrow", "light", 320),
            ):
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": width, "height": 900}
                )
                page = context.new_page()
                for screen in SCREENS:
                    if only not in screen.name:
                        continue
                    page.goto(root + screen.path.format(**runs))
                    for key in screen.keys:
                        page.keyboard.press(key)
                    file = to / f"{screen.name}-{look}.png"
                    page.screenshot(path=file, full_page=screen.full)
                    print(file)
                context.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), *sys.argv[2:])
