"""`oversight demo`: the main job in a few seconds, on bundled problems and simulated models."""

from importlib.resources import as_file, files
from pathlib import Path

import click

from oversight.engine.cli.output import say
from oversight.engine.cli.terminal import Presentation, run_in_terminal
from oversight.engine.runs.loaded_sweep import open_sweep
from oversight.engine.runs.run import RunOptions
from oversight.engine.system.settings import store_path


@click.command()
@click.option("--store", type=click.Path(path_type=Path), help="Folder of the store of replies.")
@click.option("--run-folder", type=click.Path(path_type=Path), help="Default: runs/demo-xxxxxx.")
def command(store: Path | None, run_folder: Path | None) -> None:
    """Run a small sweep on simulated models: no key, no cost."""
    with as_file(files("oversight.engine").joinpath("data", "demo.yaml")) as path:
        opened = open_sweep(path)
        options = RunOptions(store_path(store), run_folder)
        code = run_in_terminal(opened, options, Presentation("oversight demo", "text", "brier"))
    if code == 0:
        say("your own    oversight init my-sweep.yaml")
    raise SystemExit(code)
