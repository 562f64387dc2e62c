"""The Python interface: `run`, `run_async`, `asking` and `Experiment`."""
