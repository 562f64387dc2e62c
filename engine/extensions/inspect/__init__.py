"""Inspect (UK AI Security Institute): runs as its logs, protocols as its tasks.

It is in the extra `inspect`, and is imported where it is used: nothing else waits for it.
"""
