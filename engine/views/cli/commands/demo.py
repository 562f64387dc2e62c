"""`oversight demo`: a small sweep on bundled problems, with simulated models or a real one."""

from importlib.resources import as_file, files
from pathlib import Path

from ....providers.catalogue import entry, provider_of
from ....run.loaded_sweep import open_sweep
from ....run.settings import RunSettings
from ....system.settings import flag
from ..exit_codes import ExitCode
from ..flags import FOLDER_OF_RUN, STORE, as_command
from ..output import say
from ..terminal import Presentation, run_in_terminal

MODEL = "local/smollm2"
"""The model of `demo-real.yaml`."""

BEFORE = (
    f"{MODEL} is served on this machine by llama.cpp: no key, no cost, no network",
    "some 60 calls: one to two minutes on two quiet cores, many more on busy ones",
    "Ctrl-C stops it, and the same command goes on",
)
HONEST = "a model of 135 M parameters argues badly: these figures prove the way, not the protocols"


@as_command
def command(
    real: bool = flag(f"Ask a small real model on this machine: {MODEL}.", default=False),
    store: str | None = STORE,
    run_folder: Path | None = FOLDER_OF_RUN,
) -> None:
    """Run a small sweep on simulated models: no key, no cost.

    --real asks a small real model instead, about passages that the agents read and the judge does
    not."""
    if real:
        if (require := entry(provider_of(MODEL)).require) is not None:
            require()
        for line in (*BEFORE, HONEST):
            say(line)
    name, again = (
        ("demo-real.yaml", "oversight demo --real") if real else ("demo.yaml", "oversight demo")
    )
    with as_file(files("oversight.engine").joinpath("data", name)) as path:
        opened = open_sweep(path)
        options = RunSettings(store=store, folder=run_folder, allow_changed_code="new folder")
        code = run_in_terminal(opened, options, Presentation(again, "text", "brier"))
    if real and code in (ExitCode.DONE, ExitCode.FAILED):
        say(HONEST)
    if code == 0:
        say("your own    oversight init my-sweep.yaml")
    raise SystemExit(code)
