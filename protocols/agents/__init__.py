"""Agents: who speaks, and the tools that they may use."""
