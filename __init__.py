"""Marks the checkout as one package, so that tools which read imports as text resolve `..`.

A script beside a checkout that is called `oversight` finds this file by that name, and gets the
package that lies within.
"""

if __name__ == "oversight":
    import sys
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    _spec = spec_from_file_location(__name__, Path(__file__).parent / "oversight" / "__init__.py")
    assert _spec is not None and _spec.loader is not None, "it lies there"
    sys.modules[__name__] = module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[__name__])
