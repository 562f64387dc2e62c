"""Agents, which speak in protocols, and their tools."""
