"""What people see: progress, tables of text, text that others wrote."""
