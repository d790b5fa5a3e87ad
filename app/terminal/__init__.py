"""The terminal client: sends requests to a Parley gateway and shows each reply as it streams."""

from app.terminal.color import use_color
from app.terminal.conversation import COMMANDS, ChatOptions, ask_once, converse
from app.terminal.gateway import Gateway, RequestFailed, Unreachable
from app.terminal.line_reader import LineReader, find_history_file

__all__ = [
    "COMMANDS",
    "ChatOptions",
    "Gateway",
    "LineReader",
    "RequestFailed",
    "Unreachable",
    "ask_once",
    "converse",
    "find_history_file",
    "use_color",
]
