"""What a page is asked with behind the ? of its address."""

from aiohttp import web

from oversight.protocols.scores import SCORES


def asked_score(request: web.Request) -> str:
    """The score under which a page shows its figures. HTTPNotFound if there is none such."""
    name = request.query.get("score", "brier")
    if name not in SCORES:
        raise web.HTTPNotFound(text=f"there is no score {name!r}; there are {', '.join(SCORES)}")
    return name


def asked_number(request: web.Request, name: str) -> int:
    """A number from 0 on, 0 if it is not given. HTTPNotFound if it is none."""
    value = request.query.get(name, "0")
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise web.HTTPNotFound(text=f"{name}={value!r} is no number of a page")
    return int(value)
