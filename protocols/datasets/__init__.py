"""Data sets: loaders, the problems that come with the program, and the leakage check."""
