"""Benchmark oversight protocols: how well can a weak judge check a strong agent?

One import name for three rooms, `oversight.engine`, `oversight.protocols` and `oversight.cache`. In
a checkout they lie beside this folder, in a wheel within it. The names of the public face are in
`__init__.pyi`; each is imported when it is first used.
"""

from pathlib import Path as _Path

import lazy_loader

_here = _Path(__file__).resolve().parent
# The links that a checkout has here are for type checkers and editors: one file, one module.
if not (_here / "engine").is_dir() or (_here / "engine").is_symlink():
    __path__.insert(0, str(_here.parent))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
