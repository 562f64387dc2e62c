"""oversight: run and score scalable-oversight benchmarks.

The public names are declared in `__init__.pyi` and imported on first use. The three packages
`engine`, `protocols` and `cache` lie next to this folder in a checkout, and inside it in a wheel.
"""

import os
from functools import cache
from typing import Any

_here = os.path.dirname(os.path.realpath(__file__))
_engine = os.path.join(_here, "engine")
# A checkout has links to the packages here, for type checkers and editors. Python must not
# follow them: each file would become two modules.
if not os.path.isdir(_engine) or os.path.islink(_engine):
    __path__.insert(0, os.path.dirname(_here))


@cache
def _public() -> tuple[Any, Any, list[str]]:
    # Read on first use: the command line needs no public name.
    import lazy_loader

    return lazy_loader.attach_stub(__name__, __file__)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    named, _, names = _public()
    return names if name == "__all__" else named(name)


def __dir__() -> list[str]:
    return _public()[1]()  # type: ignore[no-any-return]
