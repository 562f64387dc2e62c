"""Persons in any seat: what they are asked, who is asked what, and what is kept of it."""
