"""Inspect (UK AI Security Institute): runs as its logs, protocols as its tasks.

It needs the extra `inspect`, which is imported on first use."""
