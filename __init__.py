"""Marks the checkout as one package, so that tools which read imports as text resolve `..`."""
