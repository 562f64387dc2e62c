"""The record of a run: calls, turns and verdicts, as data that outlives its code."""
