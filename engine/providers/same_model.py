"""Whether two names are of one model."""

import re

_DATED = re.compile(r"[-@]?(20\d{2}-?\d{2}-?\d{2}|\d{4}|v\d+(:\d+)?)$")
"""What a snapshot adds to the name of its alias."""


def same_model(asked: str, served: str) -> bool:
    """Whether a served model may be the requested one: a dated snapshot of it, or its file."""
    one, other = _bare(asked), _bare(served)
    if served.endswith(".gguf") or "/" in served:
        return one in other or other in one
    return one == other


def _bare(name: str) -> str:
    name = name.lower().rpartition("/")[2].removesuffix("-latest").removesuffix(":latest")
    return re.sub(r"[^a-z0-9]", "", _DATED.sub("", name))
