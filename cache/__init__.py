"""Model calls, replies, and the store that caches them."""

import lazy_loader

if __name__ != "oversight.cache":
    raise ImportError(f"import oversight.cache, not {__name__}: a second copy of each class")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
