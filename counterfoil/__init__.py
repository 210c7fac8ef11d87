"""Counterfoil keeps the other half of every tool call: what was asked, who allowed it, that it was sent, what happened."""

__version__ = "0.1.0"
