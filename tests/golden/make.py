"""Makes `worded` anew, where a change of words is meant: python -m tests.golden.make

The sweeps and their problems stay; runs, replies, bundle and what is expected of them are made by
the program as it is now.
"""

import json
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

from oversight import run
from oversight.cache.disk import ReadOnlyStore
from oversight.engine.runs.loaded_sweep import open_run
from tests.command_line import within
from tests.golden.reading import addresses, figures, in_python

HERE = Path(__file__).parent / "worded"
KEPT = ("manifest.json", "outcomes.jsonl", "problems.jsonl", "sweep.yaml")
SHOWN = {
    "golden": ["--protocol", "market", "--agent", "unruly"],
    "in_python": ["--protocol", "debate", "--agent", "best"],
}


def make(place: Path) -> None:
    os.chdir(place)
    os.environ["OVERSIGHT_STORE"] = str(place / "store")
    runs = place / "runs"
    (place / "problems.jsonl").write_bytes((HERE / "made/golden/problems.jsonl").read_bytes())
    (place / "golden.yaml").write_bytes((HERE / "made/golden/sweep.yaml").read_bytes())
    within("run", "golden.yaml", "--run-folder", runs / "golden", cwd=place)
    problems = open_run(HERE / "made/in_python").sweep.problems
    run(in_python(), problems, name="in_python", folder=runs / "in_python", quiet=True)
    within("export", runs / "golden", "-o", "made.bundle", cwd=place)
    with closing(ReadOnlyStore(place / "store")) as store:
        expected: dict[str, object] = {"replies": len(store)}
    for name, shown in SHOWN.items():
        report = within("report", runs / name, "--json", cwd=place)
        replay = within("replay", runs / name, "--json", cwd=place)
        show = within("show", runs / name, *shown, "--json", cwd=place)
        equal = replay.err.partition(" of ")[2].partition(" ")[0]
        expected[name] = {
            "rows": figures(report.out),
            "cells": len(open_run(runs / name).sweep),
            "replayed": int(equal.replace(",", "")),
            "show": shown,
            "addresses": addresses(json.loads(show.out)),
        }
        (HERE / "made" / name).mkdir(parents=True, exist_ok=True)
        for file in KEPT:
            shutil.copy(runs / name / file, HERE / "made" / name / file)
    shutil.rmtree(HERE / "store")
    shutil.copytree(place / "store", HERE / "store")
    shutil.copy(place / "made.bundle", HERE / "made.bundle")
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        make(Path(place))
