"""The Python face: `run`, `run_async`, `asking` and `Experiment`."""
