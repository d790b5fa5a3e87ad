"""Show the frames of a reply: as styled text for people, or as JSON lines for programs."""

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from app.terminal.color import BOLD, CYAN, DIM, paint
from app.terminal.frames import Frame

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def replace_control_characters(text: str) -> str:
    """Replace control characters by visible symbols, so that the terminal does not obey them."""
    return _CONTROL.sub(lambda found: _symbol(ord(found[0])), text)


def _symbol(code: int) -> str:
    if code == 0x0D:
        return ""  # the return of a CRLF needs no symbol, and a bare one could hide what stands before it
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def format_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, color: bool) -> str:
    """Return a line for each row, in columns. What cells have of control characters and line breaks is shown."""
    table = [tuple(replace_control_characters(cell).replace("\n", "\u240a") for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in [header, *table]) for column in range(len(header))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *table]
    ]
    return "\n".join([paint(lines[0], BOLD, color=color), *lines[1:]])


class Screen(Protocol):
    def show(self, frame: Frame) -> None: ...

    def end_line(self) -> None:
        """End an unfinished line."""


class JsonScreen:
    """Prints each frame as a line of JSON."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, frame: Frame) -> None:
        text = json.dumps(frame, ensure_ascii=False)
        self._out.write(_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
        self._out.flush()

    def end_line(self) -> None:
        """Do nothing: every line is finished."""


class PrettyScreen:
    """Prints reasoning dimmed, content plain, calls as `name(arguments)`, and each message on a new line."""

    def __init__(self, out: TextIO, *, color: bool) -> None:
        self._out = out
        self._color = color
        self._at_line_start = True
        self._shown: set[Any] = set()
        self._called = False

    def show(self, frame: Frame) -> None:
        match frame.get("type"):
            case "message.started":
                self._start(_part(frame, "message"))
            case "message.delta":
                self._shown.add(frame.get("index"))
                self._show_parts(_part(frame, "delta"))
            case "message.completed":
                self._complete(frame)
            case "response.completed":
                self._summary(frame)
        self._out.flush()

    def end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
            self._out.flush()

    def _start(self, message: Frame) -> None:
        self.end_line()
        call = message.get("function_call")
        self._called = isinstance(call, dict)
        if isinstance(call, dict):
            self._write(f"{_text(call.get('name'))}(", CYAN)

    def _show_parts(self, parts: Frame) -> None:
        call = parts.get("function_call")
        self._write(_text(parts.get("reasoning_content")), DIM)
        self._write(_text(parts.get("content")))
        self._write(_text(call.get("arguments")) if isinstance(call, dict) else "", CYAN)

    def _complete(self, frame: Frame) -> None:
        """End a message; one that came without deltas is shown now."""
        if frame.get("index") not in self._shown:
            self._show_parts(_part(frame, "message"))
        if self._called:
            self._write(")", CYAN)
        self._called = False
        self.end_line()

    def _summary(self, frame: Frame) -> None:
        self.end_line()
        usage = _part(frame, "usage")
        parts = [_text(frame.get("finish_reason"))]
        if usage:
            parts.append(f"{usage.get('prompt_tokens', '?')} + {usage.get('completion_tokens', '?')} tokens")
        if frame.get("cached") is True:
            parts.append("cached")
        self._write(" · ".join(part for part in parts if part), DIM)
        self.end_line()

    def _write(self, text: str, style: str = "") -> None:
        if not text:
            return
        shown = replace_control_characters(text)
        self._at_line_start = shown.endswith("\n") if shown else self._at_line_start
        self._out.write(paint(shown, style, color=self._color and bool(style)))


def _part(frame: Frame, key: str) -> Frame:
    value = frame.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
