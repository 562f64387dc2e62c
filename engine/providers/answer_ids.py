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
PROVEN = 2
"""Different ids that show that a server gives each answer one of its own. Of one that draws from
few, the first that comes again with other words shows as much."""
FRESH_REPEATS = 3
"""Repetitions in a row on connections without an earlier answer, where none can be stale, that show
that it does not."""

_BODY_ID = re.compile(rb'"id"\s*:\s*"([\x21\x23-\x5b\x5d-\x7e]{20,200})"')
"""Shorter ids are counted, drawn from few, or the same in all answers: Ollama draws from 999."""
_WITHIN = 1024
"""Bytes at the start of a body in which its id stands."""


class AnswerIds:
    """The ids of one server's last answers: those in bodies, or else in headers."""

    def __init__(self) -> None:
        self.proven = False
        """Whether the last answer carried an id that would show a repetition."""
        self._seen: dict[str, int] = {}
        """By id, a hash of the body that came with it."""
        self._fresh_repeats = 0
        self._shared = False
        """Whether different answers have had one id."""

    def repeated(self, headers: Mapping[str, str], body: bytes, fresh: bool) -> str:
        """The id of an answer that was given before, on this connection or any; else empty.

        fresh: whether it is the first answer on its connection.
        """
        found = _BODY_ID.search(body, 0, _WITHIN)
        stated = found[1].decode() if found else headers.get("x-request-id", "")
        stated = stated or headers.get("request-id", "")
        seen, content = self._seen, hash(body)
        before = seen.get(stated)
        if before is None:
            self._fresh_repeats = 0 if fresh else self._fresh_repeats
            if stated:
                seen[stated] = content
                if len(seen) > REMEMBERED:
                    del seen[next(iter(seen))]
        else:
            self._fresh_repeats += fresh
            if before != content or self._fresh_repeats >= FRESH_REPEATS:
                self._shared = True
        self.proven = bool(stated) and len(seen) >= PROVEN and not self._shared
        return "" if before is None or self._shared else stated
