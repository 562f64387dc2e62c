"""The engine: providers, limits, sweeps, runs, reports and the command line.

The names are in `__init__.pyi`; each is imported when it is first used.
"""

import lazy_loader

if __name__ != "oversight.engine":
    raise ImportError(f"import oversight.engine, not {__name__}: a second copy of each class")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
