"""The terminal client: sends requests to a Parley gateway and shows each reply as it streams."""

from app.terminal.client import chat, repl

__all__ = ["chat", "repl"]
