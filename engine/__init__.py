"""The engine: providers, limits, sweeps, runs, reports and the command line."""

if __name__ != "oversight.engine":
    raise ImportError(f"import oversight.engine, not {__name__}: a second copy of each class")
