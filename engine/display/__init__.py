"""Text for users: progress, tables, texts that others wrote."""
