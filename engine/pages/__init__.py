"""A run as pages: the same HTML from a server and as files that open by themselves."""
