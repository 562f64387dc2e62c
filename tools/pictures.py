"""Pictures of every screen: `python -m tools.pictures FOLDER`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple

from oversight.engine.analysis.pictures.kinds import ALL_KINDS
from oversight.engine.extensions.mock.process import serving
from tests.command_line import oversight, running, within
from tests.pages.browser import chromium, opened, served
from tests.pages.conftest import HARD
from tests.pages.rated import TASKS, at_desk, begin, filled
from tests.persons.queues import PLAIN

DEMO = "data/demo.yaml"
GRID = Path(__file__).parents[1] / "examples/appendix_a_sim.yaml"
"""290 rows; here with bundled problems."""
BUNDLED = "bundled: {name: arithmetic, limit: 4}"
LIVE = """\
name: live
problems: {bundled: arithmetic}
agents: {model: [compatible/lab/large, compatible/lab/small]}
judges: {kind: stated, model: compatible/lab/judge}
protocols: {naive_judge: , debate: {rounds: 2}, consultancy: {turns: 2}}
providers: {compatible/lab: {base_url: "http://127.0.0.1:1/v1"}}
models:
  compatible/lab/large: {requests: 900}
  compatible/lab/judge: {concurrency: 6}
"""
"""Real requests under limits, to a server of this machine."""
LOOKS = (("light", "light", 1280), ("dark", "dark", 1280), ("narrow", "light", 390))
"""Name, colour scheme and width of the window."""


class Screen(NamedTuple):
    name: str
    path: str
    """Behind the address of the server; `{hard}`, `{demo}` and the like stand for the runs."""
    keys: str = ""
    full: bool = False


SCREENS = (
    Screen("runs", ""),
    Screen("overview", "run/{demo}", full=True),
    Screen("overview-hard", "run/{hard}", full=True),
    Screen("overview-290", "run/{grid}", full=True),
    Screen("overview-live", "run/{live}"),
    Screen("transcripts", "run/{demo}/transcripts?show=liar+won"),
    Screen("transcripts-290", "run/{grid}/transcripts"),
    Screen("row", "run/{demo}/row/4"),
    Screen("reader-debate", "run/{demo}/row/12/problem/4"),
    Screen("reader-quotes", "run/{hard}/row/30/problem/2", "d", True),
    Screen("reader-failed", "run/{hard}/row/2/problem/1", full=True),
    Screen("calls", "run/{demo}/row/12/problem/4/calls"),
    Screen("problem", "run/{demo}/problem/3"),
    Screen("map", "run/{hard}/map"),
    Screen("map-demo", "run/{demo}/map"),
    Screen("map-290", "run/{grid}/map"),
    Screen("compare", "run/{demo}/compare"),
    Screen(
        "answer", "run/{demo}/compare?first=debate+simultaneous+2+stated&second=propaganda+stated"
    ),
    Screen("answers", "run/{demo}/compare?first=debate&second=consultancy"),
    Screen("answer-290", "run/{grid}/compare?first=debate&second=consultancy"),
    Screen("failures", "run/{hard}/failures"),
    Screen("cost", "run/{demo}/cost"),
    Screen("cost-live", "run/{live}/cost"),
    *(
        Screen(f"measure-{kind}", f"run/{{demo}}/measure/{kind}", full=True)
        for kind in ("frontier", "worlds", "calibration")
    ),
    Screen("frontier-290", "run/{grid}/measure/frontier", full=True),
    Screen("search", "run/{demo}/search?q=paint"),
    Screen("origin", "run/{demo}/origin"),
    Screen("no-such-page", "run/nobody"),
    Screen("help", "run/{demo}", "?"),
)


@contextmanager
def under_way(place: Path) -> Iterator[Callable[[Any], None]]:
    """A run with real requests; the given function waits until a page has shown it."""
    (place / "live.yaml").write_text(LIVE)
    flags = ["--sweep", str(place / "live.yaml"), "--profile", "busy", "--speed", "1"]
    with serving(flags) as url:
        base = f"providers.compatible/lab.base_url={url}/v1"
        with running("run", "live.yaml", "--set", base, cwd=place) as sweep:
            sweep.until_cells(10)
            # A terminal that nobody reads from holds back who writes to it.
            reader = Thread(target=sweep.end)
            reader.start()
            seconds = "[data-live=rate]:text-matches('^[0-9]')"
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
        oversight("measure", "probe", "demo", "--protocol", "debate", "--limit", "5", cwd=place)
        other = ("--set", "agents.model=sim/deceptive", "--set", "name=again")
        (place / "demo.yaml").write_bytes(files("oversight.engine").joinpath(DEMO).read_bytes())
        oversight("run", "demo.yaml", *other, cwd=place)
        grid = GRID.read_text().replace("appendix-a-sim", "grid")
        grid = grid.replace("gsm8k: {folder: data/gsm8k, limit: 100}", BUNDLED)
        (place / "grid.yaml").write_text(grid)
        oversight("run", "grid.yaml", cwd=place)
        hard = next((place / "runs").glob("hard-*"))
        oversight("measure", "probe", hard, "--protocol", "debate", cwd=place)
        with ExitStack() as stack:
            root = stack.enter_context(served(place / "runs"))
            browser = stack.enter_context(chromium())
            live = stack.enter_context(under_way(place))
            names = sorted(each.name for each in (place / "runs").iterdir())
            runs = {name.partition("-")[0]: name for name in names}
            for look in LOOKS:
                with looking(browser, look, to) as (page, shoot):
                    for screen in SCREENS:
                        if only in screen.name:
                            page.goto(root + screen.path.format(**runs))
                            if screen.name == "overview-live":
                                live(page)
                            for key in screen.keys:
                                page.keyboard.press(key)
                            shoot(screen.name, full_page=screen.full)
                if only in "rating":
                    take_rating(browser, look, to, place / look[0])
        if only in "plot":
            take_plots(place / "runs" / runs["demo"], place / "runs" / runs["again"], to)


@contextmanager
def looking(
    browser: Any, look: tuple[str, str, int], to: Path
) -> Iterator[tuple[Any, Callable[..., None]]]:
    """A page in one look, and what writes a picture of it."""
    name, scheme, width = look
    size = {"width": width, "height": 900}
    with opened(browser, color_scheme=scheme, viewport=size) as page:

        def shoot(screen: str, **how: Any) -> None:
            file = to / f"{screen}-{name}.png"
            page.screenshot(path=file, **how)
            print(file)

        yield page, shoot


def take_rating(browser: Any, look: tuple[str, str, int], to: Path, place: Path) -> None:
    """Pages of a rater: the welcome, a task of each kind, waiting, and the end."""
    settings = replace(PLAIN, before=True)
    for task, call in TASKS.items():
        name = f"rating-{task.replace(' ', '-')}"
        with (
            at_desk(place / name, [call], settings) as (desk, links),
            looking(browser, look, to) as (page, shoot),
        ):
            page.goto(links[0])
            if task == "two answers":
                shoot("rating-welcome")
            begin(page, links[0])
            if page.get_by_role("button", name="Show what was said").count():
                shoot(f"{name}-before", full_page=True)
                filled(page)
                page.get_by_role("button", name="Show what was said").click()
                page.locator(".turn").first.wait_for()
            shoot(name, full_page=True)
            if task == "two answers":
                filled(page)
                page.get_by_role("button", name="Save").click()
                page.locator("#waiting").wait_for()
                shoot("rating-waiting")
                desk.over = True
                # The page that waits goes on by itself, and would cut another way of it short.
                with looking(browser, look, to) as (last, shoot):
                    last.goto(links[0])
                    shoot("rating-over")


def take_plots(run: Path, other: Path, to: Path) -> None:
    """The plots that the run has the rows for, and its comparison with another one."""
    for kind in ALL_KINDS:
        file, runs = to / f"plot-{kind}.png", (run, other)[: 1 + (kind == "compare")]
        drawn = within("export", "plot", *runs, "--kind", kind, "-o", file, cwd=to)
        print(drawn.err.strip() if drawn.code else file)


if __name__ == "__main__":
    take(Path(sys.argv[1]), *sys.argv[2:])
