"""Pictures of every screen: `python -m tests.pages.pictures FOLDER`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple

from oversight.engine.rehearsal.process import serving
from tests.command_line import oversight, running
from tests.pages.browser import chromium, served
from tests.pages.runs import HARD, LIVE

DEMO = "data/demo.yaml"


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
    Screen("compare", "compare?a={again}&b={demo}"),
    Screen("live", "run/{live}/live"),
    Screen("help", "run/{demo}", "?"),
)


@contextmanager
def under_way(place: Path) -> Iterator[Callable[[Any], None]]:
    """A run with real requests; what is given waits until a page has seen it for some seconds."""
    (place / "live.yaml").write_text(LIVE)
    flags = ["--sweep", str(place / "live.yaml"), "--profile", "busy", "--speed", "1"]
    with serving(flags) as url:
        base = f"providers.compatible/lab.base_url={url}/v1"
        with running("run", "live.yaml", "--set", base, cwd=place) as sweep:
            sweep.until_cells(10)
            # A terminal that nobody reads from holds back who writes to it.
            reader = Thread(target=sweep.end)
            reader.start()
            seconds = "#span:text-matches('^([6-9]|[1-9][0-9]+)$')"
            try:
                yield lambda page: page.locator(seconds).wait_for(timeout=90_000)
            finally:
                sweep.process.kill()
                reader.join()


def take(to: Path, only: str = "") -> None:
    """Write every screen, light, dark and on a narrow telephone. only: part of their names."""
    to.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="pictures-") as room:
        place = Path(room)
        (place / "hard.yaml").write_text(HARD)
        oversight("demo", cwd=place)
        oversight("run", "hard.yaml", cwd=place)
        other = ("--set", "seed=1", "--set", "name=again")
        (place / "demo.yaml").write_bytes(files("oversight.engine").joinpath(DEMO).read_bytes())
        oversight("run", "demo.yaml", *other, cwd=place)
        hard = next((place / "runs").glob("hard-*"))
        oversight("probe", hard, "--protocol", "debate", cwd=place)
        with ExitStack() as stack:
            root = stack.enter_context(served(place / "runs"))
            browser = stack.enter_context(chromium())
            live = stack.enter_context(under_way(place))
            names = sorted(each.name for each in (place / "runs").iterdir())
            runs = {name.partition("-")[0]: name for name in names}
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
                    if screen.name == "live":
                        live(page)
                    for key in screen.keys:
                        page.keyboard.press(key)
                    file = to / f"{screen.name}-{look}.png"
                    page.screenshot(path=file, full_page=screen.full)
                    print(file)
                context.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), *sys.argv[2:])
