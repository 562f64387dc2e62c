"""The machine underneath: files, event loop, garbage collector, environment."""
