"""Questions, agents, judges, oversight protocols, verdicts and scores.

The names are in `__init__.pyi`. Each is imported on first use."""

import lazy_loader

if __name__ != "oversight.protocols":
    raise ImportError(f"import oversight.protocols, not {__name__}: a second copy of each class")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
