"""oversight: run and score scalable-oversight benchmarks.

The public names are declared in `__init__.pyi` and imported on first use. The three packages
`engine`, `protocols` and `cache` lie next to this folder in a checkout, and inside it in a wheel.
"""

from pathlib import Path as _Path

import lazy_loader

_here = _Path(__file__).resolve().parent
# A checkout has links to the packages here, for type checkers and editors. Python must not
# follow them: each file would become two modules.
if not (_here / "engine").is_dir() or (_here / "engine").is_symlink():
    __path__.insert(0, str(_here.parent))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
