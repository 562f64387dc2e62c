"""A run on several processes: who does what, and how limits, dollars and halts hold for all."""
