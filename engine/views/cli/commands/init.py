"""`oversight init`: a sweep file to start from."""

import asyncio
from importlib.resources import files
from pathlib import Path

from .....protocols.settings import unknown
from ....errors import UsageError
from ....system.settings import argument, flag
from ..flags import as_command
from ..output import say

OWN = "compatible/own"
"""Provider name of the user's server in a generated sweep file."""


@as_command
def command(
    sweep: Path = argument(default="sweep.yaml"),
    example: str | None = flag(
        "Start from an example: appendix_a, appendix_a_sim, appendix_a_solib, asymmetric, "
        "first-live, hidden_passage, instead_of_people, mechanisms, open_tasks, pressure, "
        "strong_debaters."
    ),
    local: str | None = flag("Your own server; it is asked for its models.", metavar="URL"),
) -> None:
    """Write a commented sweep file to SWEEP. It runs as it is, on simulated models.

    An example may need a data set or keys; it says so itself. With --local it asks the first model
    of an OpenAI-compatible server: llama.cpp, vLLM, Ollama, LM Studio."""
    if example is not None and local is not None:
        raise UsageError("--example and --local exclude each other")
    if sweep.exists():
        raise UsageError(f"{sweep} already exists; choose another name")
    text = _text(example) if local is None else _own(local)
    try:
        sweep.parent.mkdir(parents=True, exist_ok=True)
        with sweep.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise UsageError(f"{sweep}: cannot be written: {exc.strerror}") from exc
    say(f"wrote {sweep}. Look at it, then: oversight run {sweep}")


def _own(address: str) -> str:
    """The starter sweep file for the server at `address`."""
    from ....providers.self_hosted import self_hosted_server
    from ....providers.settings import environment

    server = asyncio.run(self_hosted_server(address, environment(Path())))
    description = f"{server.base_url} serves {', '.join(server.models)}"
    if server.slots:
        description += f", {server.slots:,} calls at once"
    if server.context:
        description += f", {server.context:,} tokens each"
    say(description)
    first, *others = [f"{OWN}/{model}" for model in server.models]
    more = f"  # model: {_quoted(others[0])}  # or any of {len(server.models)}\n" if others else ""
    if server.slots:
        limits = f"models:\n  {_quoted(first)}: {{concurrency: {server.slots}}}  # its slots"
    else:
        limits = (
            "# Concurrency is tuned automatically; or set it:\n"
            f"# models:\n#   {_quoted(first)}: {{concurrency: 8}}"
        )
    return (
        _data("starter-local.yaml")
        .replace("{model}", _quoted(first))
        .replace("{others}", more)
        .replace("{base_url}", _quoted(server.base_url))
        .replace("{limits}", limits)
    )


def _quoted(text: str) -> str:
    """The text quoted for YAML in any position, as JSON is YAML."""
    import orjson

    return orjson.dumps(text).decode()


def _text(example: str | None) -> str:
    if example is None:
        return _data("starter.yaml")
    package = files("oversight.engine")
    examples = package.joinpath("data", "examples")
    if not examples.is_dir():
        # In a working tree they are next to the package.
        examples = package.joinpath("..", "examples")
    known_files = {
        file.name.removesuffix(".yaml"): file
        for file in examples.iterdir()
        if file.name.endswith(".yaml")
    }
    if example not in known_files:
        raise UsageError(f"--example: {unknown('example', example, sorted(known_files))}")
    return known_files[example].read_text(encoding="utf-8")


def _data(name: str) -> str:
    return files("oversight.engine").joinpath("data", name).read_text(encoding="utf-8")
