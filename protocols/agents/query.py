"""Queries of a question's database, which is the environment of the question, as SQL.

Each runs in a process of its own (`querying`), which is killed when its time is over, or with the
cell: SQLite cannot be stopped within an instruction.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE

import orjson

from . import querying
from .tool import ToolContext, ToolResult, tool_of_text, turns

MAX_QUERY = 1_000
"""Characters."""
SECONDS = 60
"""Of a query. Its steps are counted and end far sooner, so that only what cannot be counted, or a
machine that stands still, comes near this."""


async def use_query(sql: str, context: ToolContext) -> ToolResult:
    """The rows that a query gives, or an error that holds nothing of it."""
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
            # Killing one that has ended takes its exit code from asyncio.
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
