"""SQL queries of a question's database, which is made by the script in `Question.environment`.

Each query runs in a separate process (`querying`), since SQLite cannot be stopped within an
instruction. The process is killed at its time limit, or when the cell ends.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE

import orjson

from . import querying
from .tool import Scene, ToolResult, tool_of_text, turns

MAX_QUERY = 1_000
"""Maximum characters of a query."""
SECONDS = 60
"""Maximum time of a query. Counted steps end most queries far sooner; this limit catches work that
cannot be counted, and stalled machines."""


async def use_query(sql: str, context: Scene) -> ToolResult:
    """The rows of a query, or an error that repeats nothing of it."""
    script = context.question.environment
    if not script:
        return ToolResult("error: this question has no database")
    if len(sql) > MAX_QUERY:
        return ToolResult(f"error: longer than {MAX_QUERY} characters")
    async with turns():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", querying.__file__,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(SECONDS):
                written, _ = await process.communicate(orjson.dumps((sql, script, context.claimed)))
        except TimeoutError:
            return ToolResult(f"error: it takes more than {SECONDS} s")
        finally:
            # Even if the process has ended, `kill` would take its exit code from asyncio.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    if process.returncode:
        return ToolResult("error: this is no query of the database")
    return ToolResult(*orjson.loads(written))


QUERY = tool_of_text(
    "query",
    "Runs one SQL query (SQLite, SELECT) on the database that the question is about.",
    "sql",
    use_query,
    1.0,
)
