"""`oversight demo`: the main job in a few seconds, on bundled problems and simulated models."""

from importlib.resources import as_file, files
from pathlib import Path

import click

from engine.cli.screen import say
from engine.cli.terminal import Plan, sit
from engine.opening import open_sweep
from engine.settings import store_path


@click.command()
@click.option("--store", type=click.Path(path_type=Path), help="Folder of the store of replies.")
@click.option("--run-folder", type=click.Path(path_type=Path), help="Default: runs/demo-xxxxxx.")
def command(store: Path | None, run_folder: Path | None) -> None:
    """Run a small sweep on simulated models: no key, no cost."""
    with as_file(files("engine").joinpath("data", "demo.yaml")) as path:
        opened = open_sweep(path)
        plan = Plan(
            "oversight demo", "use", store_path(store), run_folder, (), False, "text", "brier"
        )
        code = sit(opened, plan)
    if code == 0:
        say("your own    oversight init my-sweep.yaml")
    raise SystemExit(code)
