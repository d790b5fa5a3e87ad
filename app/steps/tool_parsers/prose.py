"""Where in prose a marker can begin a call if no family is configured: not in code, in a quotation or in the
middle of a sentence, where a text writes about calls."""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_EXAMPLE = re.compile(r"\b(?:for example|example|for instance|looks? like|e\.g\.)|例如|示例|比如|例：", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…。！？][)\]”\"'*_]*\s*$")
_LIST_ITEM = re.compile(r"\d+[.)]")
_NO_NEIGHBOUR = frozenset("'\"`“‘«「『([{<|*_=/\\")
"""Characters directly behind which a marker is quoted, or a part of something else."""
_KEPT = 400
"""How much of a line is looked at."""


class Prose:
    """The prose of a reply so far. Text is only collected until a marker comes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._fence = ""
        """What opened the code block in which the prose ends."""
        self._start = ""
        """The beginning of the last line."""
        self._end = ""
        """The end of the last line."""
        self._previous = ""
        """The last line before it that is not blank."""
        self._ticks = self._quotes = self._depth = 0
        self._refused = False
        """A marker of this paragraph was a part of the prose."""

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def may_begin_call(self) -> bool:
        """Whether a marker that comes now can begin a call. If not, no later one of the same paragraph can: it is what
        stands between the first marker and its end."""
        self._read_pieces()
        self._refused = self._refused or not self._is_free()
        return not self._refused

    def begins_line(self) -> bool:
        """Whether what comes now begins a line outside of code and quotations."""
        self._read_pieces()
        return self._is_free() and not self._start.strip()

    def _is_free(self) -> bool:
        """Whether nothing of the prose makes a marker that comes now a part of it."""
        if self._fence or self._ticks % 2 or self._quotes % 2 or self._depth > 0:
            return False
        line = self._start.strip()
        if line.startswith(">"):
            return False
        if not line:
            is_indented = self._start.startswith("\t") or len(self._start) - len(self._start.lstrip(" ")) >= 4
            return not is_indented and not self._announces_example()
        if self._end[-1].isspace():
            return _SENTENCE_END.search(self._end) is not None and _LIST_ITEM.fullmatch(line) is None
        return self._end[-1] not in _NO_NEIGHBOUR

    def _announces_example(self) -> bool:
        line = self._previous.rstrip()
        return line.endswith((":", "：")) and _EXAMPLE.search(line) is not None

    def _read_pieces(self) -> None:
        lines = "".join(self._pieces).split("\n")
        self._pieces.clear()
        for line in lines[:-1]:
            self._add_to_line(line)
            self._end_line()
        self._add_to_line(lines[-1])

    def _add_to_line(self, text: str) -> None:
        self._start = (self._start + text[:_KEPT])[:_KEPT]
        self._end = (self._end + text[-_KEPT:])[-_KEPT:]
        self._ticks += text.count("`")
        self._quotes += text.count('"')
        self._depth += sum(map(text.count, "“「«")) - sum(map(text.count, "”」»"))

    def _end_line(self) -> None:
        fence = _FENCE.fullmatch(self._start)
        if fence is not None and not self._fence:
            self._fence = fence.group(1)
        elif fence is not None and fence.group(1).startswith(self._fence) and not fence.group(2).strip():
            self._fence = ""
        if self._end.strip():
            self._previous = self._end
        elif not self._fence:
            self._refused = False
        self._start = self._end = ""
        self._ticks = self._quotes = self._depth = 0
