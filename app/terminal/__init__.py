"""The terminal client: asks a Parley over HTTP and shows the reply while it streams."""

from app.terminal.client import chat, repl

__all__ = ["chat", "repl"]
