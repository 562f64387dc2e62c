"""Ids of answers: one that was given before is a stale answer, and no reply to another call.

HTTP/1.1 does not say which request an answer belongs to. One that a server, or a proxy before it,
sends once more arrives while the next request is out, and is taken for its answer. Its body and
its headers carry the id of the answer that it repeats.
"""

import re
from collections.abc import Mapping

REMEMBERED = 2**15
"""Ids kept, those seen last: some minutes of the fastest server, where stale answers come within
seconds."""
PROVEN = 8
"""Different ids in a row that show that a server gives each answer one of its own."""
FRESH_REPEATS = 3
"""Repetitions in a row on connections without an earlier answer, where none can be stale, that show
that it does not."""

_BODY_ID = re.compile(rb'"id"\s*:\s*"([\x21\x23-\x5b\x5d-\x7e]{20,200})"')
"""Shorter ids are counted, drawn from few, or the same in all answers: Ollama draws from 999."""
_WITHIN = 1024
"""Bytes at the start of a body in which its id stands."""


class AnswerIds:
    """The ids of one server's last answers, in bodies and in headers."""

    def __init__(self) -> None:
        self.proven = False
        """Whether the last answer carried an id that would show a repetition."""
        self._in_bodies = _Seen()
        self._in_headers = _Seen()

    def repeated(self, headers: Mapping[str, str], body: bytes, fresh: bool) -> str:
        """The id of an answer that was given before, on this connection or any; else empty.

        fresh: whether it is the first answer on its connection.
        """
        self.proven, again = False, ""
        if stated := headers.get("x-request-id") or headers.get("request-id"):
            again = stated if self._in_headers.again(stated, body, fresh) else ""
            self.proven = self._in_headers.proven
        if found := _BODY_ID.search(body, 0, _WITHIN):
            within = found[1].decode()
            again = within if self._in_bodies.again(within, body, fresh) else again
            self.proven = self.proven or self._in_bodies.proven
        return again


class _Seen:
    """The ids in one place of the answers."""

    __slots__ = ("_fresh_repeats", "_ids", "_new", "_shared")

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        """A hash of the body that came with each."""
        self._new = 0
        self._fresh_repeats = 0
        self._shared = False
        """Whether different answers have had one id."""

    @property
    def proven(self) -> bool:
        return self._new >= PROVEN and not self._shared

    def again(self, id: str, body: bytes, fresh: bool) -> bool:
        """Whether the same answer came before, as far as ids show that."""
        ids, content = self._ids, hash(body)
        before = ids.get(id)
        if before is None:
            self._new += 1
            self._fresh_repeats = 0 if fresh else self._fresh_repeats
            ids[id] = content
            if len(ids) > REMEMBERED:
                del ids[next(iter(ids))]
            return False
        self._fresh_repeats += fresh
        if before != content or self._fresh_repeats >= FRESH_REPEATS:
            self._shared = True
        return not self._shared
