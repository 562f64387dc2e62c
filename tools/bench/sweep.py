"""Sweep files: questions of a warehouse, and whatever settings a bench wants."""

from collections.abc import Mapping
from pathlib import Path

import orjson

from tools.bench.clients import asked

MODELS = {"plain": f"compatible/bench/{asked.MODEL}", "sdk": f"openai/{asked.MODEL}"}
"""The model of each transport, as a sweep names it."""
LIMITS = {"requests": 1e9, "input_tokens": 1e11, "output_tokens": 1e11, "concurrency": 10_000}
"""Far above what the server can do: every call passes all the limiters, and none binds."""


def write_sweep(folder: Path, questions: range, **settings: object) -> Path:
    """A sweep file on these questions, each of which has two worlds. settings: the rest of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "problems.jsonl").open("wb") as file:
        for n in questions:
            told = zip("AB", asked.answers(n), (1, -1), strict=True)
            shown = [dict(zip(("label", "text", "value"), each, strict=True)) for each in told]
            line = {"id": f"q{n}", "question": asked.question(n), "answers": shown}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    sweep = {"name": "bench", "problems": {"file": {"path": "problems.jsonl"}}, **settings}
    path = folder / "bench.yaml"
    path.write_bytes(orjson.dumps(sweep))  # JSON is YAML
    return path


def write_debates(
    folder: Path,
    questions: range,
    transport: str = "plain",
    limits: Mapping[str, float] = LIMITS,
    **settings: object,
) -> Path:
    """A sweep of two debates per question. settings: the rest of it, such as `max_cells`.

    Sequential, so that the worlds of a question share nothing: each debate is TURNS + 1 calls."""
    model = MODELS[transport]
    return write_sweep(
        folder,
        questions,
        agents={"model": model, "max_tokens": asked.MAX_TOKENS},
        judges=[{"kind": "stated", "model": model}],
        protocols={"debate": {"simultaneous": False, "rounds": asked.TURNS // 2}},
        models={model: limits},
        **settings,
    )


def write_simulated(folder: Path, cells: int) -> tuple[int, Path]:
    """Write a simulated sweep of about `cells` cells; the exact number, and its file."""
    agents = ["sim/strong", "sim/medium", "sim/weak", "sim/deceptive"]
    judges = [{"kind": kind, "model": "sim/judge"} for kind in ("stated", "logprob")]
    protocols = {
        "propaganda": None,
        "consultancy": {"turns": 2},
        "debate": {"simultaneous": [True, False], "rounds": 2},
    }
    of_a_question = 4 * len(agents) * len(judges) * 2  # rows, and two worlds of each
    questions = max(cells // of_a_question, 1)
    sweep = write_sweep(
        folder, range(questions), agents={"model": agents}, judges=judges, protocols=protocols
    )
    return questions * of_a_question, sweep
