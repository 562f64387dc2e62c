"""The Python face: `run`, `run_async` and `asking`."""
