"""Runs the command line, and kills itself with SIGKILL at one line of the writing code.

Arguments: the number of the line, counted from the first executed one, 0 for never; then the
command's arguments. The file `lines` of the working folder has the number of executed lines."""

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from oversight.engine.views.cli.group import main

ROOT = Path(__file__).parents[2]
WATCHED = tuple(
    str(ROOT / name)
    for name in (
        "engine/run/",
        "engine/system/files.py",
        "engine/views/cli/terminal.py",
        "engine/analysis/reports/report.py",
        "cache/cache.py",
        "cache/writer.py",
        "cache/disk.py",
    )
)

last = int(sys.argv.pop(1))
count = 0


def trace(frame: FrameType, event: str, argument: Any) -> Any:
    global count
    code = frame.f_code
    if not code.co_filename.startswith(WATCHED) or code.co_name == "<module>":
        return None
    if event == "line":
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace


threading.settrace(trace)
sys.settrace(trace)
try:
    main()
finally:
    sys.settrace(None)
    Path("lines").write_text(str(count))
