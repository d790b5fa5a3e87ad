"""Finds the offered function that a name stands for: servers leave tokens, prefixes and counters at names."""

import re
from collections.abc import Container, Iterator

from app.chat.template_tokens import TOKEN

_CUT = re.compile(r"[<\[({｜|\s`\"'].*", re.DOTALL)
_COUNTER = re.compile(r"(?:[:#]\d+)+$")
_SEPARATORS = (".", ":", "/")
_MAX_LENGTH = 4_000
"""Longer texts are no names, even with arguments in them."""


def find_offered(name: str, offered: Container[str]) -> str | None:
    """Return the name that was offered and that is the name itself, or what remains of it without what a template adds:
    `functions.f`, `default_api.f`, `f:0`, `f<|channel|>json`, `f json`, `f(`, `f<arg_key>…`, `ff`.

    None if there is none, or more than one.
    """
    if name in offered:
        return name
    if len(name) > _MAX_LENGTH:
        return None
    found = {candidate for candidate in _candidates(name) if candidate in offered}
    return found.pop() if len(found) == 1 else None


def _candidates(name: str) -> Iterator[str]:
    for text in {name, TOKEN.sub(" ", name), TOKEN.sub("", name), name.strip(" \t\r\n`\"'")}:
        cut = _CUT.sub("", text.strip()).removeprefix("to=")
        for one in {text.strip(), cut, cut.rstrip(":.,")}:
            plain = _COUNTER.sub("", one)
            yield one
            yield plain
            for last in {plain, *[plain.rpartition(separator)[2] for separator in _SEPARATORS]}:
                yield last
                half = len(last) // 2
                if last[:half] * 2 == last:
                    yield last[:half]
