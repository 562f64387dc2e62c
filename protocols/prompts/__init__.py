"""Both directions of a prompt: how it is laid out, and how it is read."""
