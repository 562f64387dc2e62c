"""`oversight init`: a sweep file to start from."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from oversight.engine.cli.output import say
from oversight.engine.errors import UsageError


@click.command()
@click.argument("sweep", type=click.Path(path_type=Path), default="sweep.yaml")
@click.option("--example", help="Start from an example: appendix_a, appendix_a_sim, mechanisms.")
def command(sweep: Path, example: str | None) -> None:
    """Write a commented sweep file to SWEEP. It runs as it is, on simulated models.

    An example may need a data set or keys; it says so itself.
    """
    text = _text(example)
    try:
        sweep.parent.mkdir(parents=True, exist_ok=True)
        with sweep.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{sweep} is there already; choose another name") from None
    except OSError as exc:
        raise UsageError(f"{sweep}: cannot be written: {exc.strerror}") from exc
    say(f"wrote {sweep}. Look at it, then: oversight run {sweep}")


def _text(example: str | None) -> str:
    if example is None:
        return (
            files("oversight.engine").joinpath("data", "starter.yaml").read_text(encoding="utf-8")
        )
    there = {
        file.name.removesuffix(".yaml"): file
        for file in _examples().iterdir()
        if file.name.endswith(".yaml")
    }
    if example not in there:
        raise UsageError(f"--example {example}: there are {', '.join(sorted(there))}")
    return there[example].read_text(encoding="utf-8")


def _examples() -> Traversable:
    """Where examples are: within the package, or beside it where that is a working tree."""
    package = files("oversight.engine")
    installed = package.joinpath("data", "examples")
    return installed if installed.is_dir() else package.joinpath("..", "examples")
