"""The protocols themselves: one paper, one file."""
