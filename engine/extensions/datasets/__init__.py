"""Data sets as files: fetched, checked, and written by agents."""
