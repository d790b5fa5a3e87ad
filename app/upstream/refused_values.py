"""Change a value that a server has refused, where it says which ones it takes: efforts, types of thinking, and roles.

What is meant by the values of a list is known from the values, so that servers may name the field as they like.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
_WORD = r"[`'\"]{0,2}\w[\w.-]{0,31}[`'\"]{0,2}"
_LIST = rf"{_WORD}(?:(?:,? ?(?:and|or) |, ?| ?\| ?){_WORD}){{0,15}}"
_LISTS = re.compile(
    r"(?:(?:supported|allowed|valid|permitted)(?: \w{1,12})?(?: are)?|(?:must|should) be(?: (?:one|either) of)?"
    rf"|expected(?: one of)?|one of|use a valid role)[:\s]{{1,3}}[\[(]?({_LIST})|"
    rf"\bonly ({_LIST}) (?:is|are) (?:supported|allowed|accepted|permitted)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[`'\"\[(:]")
_VALUE = re.compile(r"\w[\w.-]*")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
"""From the smallest on."""
_KINDS: Mapping[str, Callable[[frozenset[str]], bool]] = {
    "efforts": lambda values: values <= {*_EFFORTS, "default", "auto"} and not values.isdisjoint(_EFFORTS),
    "thinking": lambda values: values <= {"adaptive", "enabled", "disabled", "auto"},
    "roles": lambda values: "user" in values and not values.isdisjoint(("assistant", "model")),
}
_OTHERS = re.compile(r"verbosity|detail", re.IGNORECASE)
"""Fields whose values have the same words as efforts."""


def find_values(kind: str, message: str) -> str:
    """Return the values of this kind that a server says it takes; an empty text if it says nothing of them."""
    if kind == "efforts" and _OTHERS.search(message):
        return ""
    for match in _LISTS.finditer(message):
        given = [word.lower().rstrip(".") for word in _VALUE.findall(match[1] or match[2])]
        words = [word for word in dict.fromkeys(given) if word not in ("and", "or")]
        is_list = len(words) > 1 or _MARKS.search(match[0])  # "must be high" is a sentence
        if is_list and words and _KINDS[kind](frozenset(words)):
            return " ".join(words)
    return ""


def change_effort(body: Json, named: str) -> Json | None:
    """Return the body with the nearest effort of these; None if it has one of them, or none."""
    taken = named.split(" ")
    for holder in ("reasoning", "output_config"):
        given = body.get(holder)
        if isinstance(given, dict) and (nearest := _find_nearest(given.get("effort"), taken)) is not None:
            return {**body, holder: {**given, "effort": nearest}}
    nearest = _find_nearest(body.get("reasoning_effort"), taken)
    return None if nearest is None else {**body, "reasoning_effort": nearest}


def _find_nearest(effort: Any, taken: list[str]) -> str | None:
    """Return the nearest value; None for one that is taken, and for what is no effort. No other one is `none`."""
    if effort not in _EFFORTS or effort in taken:
        return None
    place = _EFFORTS.index(effort)
    near = sorted((one for one in _EFFORTS[1:] if one in taken), key=lambda one: abs(_EFFORTS.index(one) - place))
    return near[0] if near else next(one for one in taken if one != "none" or len(taken) == 1)


def change_thinking(body: Json, named: str) -> Json | None:
    """Return the body with another type of thinking, or without one; None if it has one of these."""
    thinking, taken = body.get("thinking"), named.split(" ")
    if not isinstance(thinking, dict) or thinking.get("type") in (None, *taken):
        return None
    other = {"enabled": "adaptive", "adaptive": "enabled"}.get(thinking["type"])
    if other not in taken:
        return {name: value for name, value in body.items() if name != "thinking"}
    return {**body, "thinking": {"type": other}}


def change_roles(body: Json, named: str) -> Json | None:
    """Return the body with the roles of these that are meant by others; None if it has no other."""
    taken, changed = named.split(" "), dict(body)
    for field, meant in _MEANT.items():
        entries = body.get(field)
        if isinstance(entries, list):
            changed[field] = [_change_role(entry, taken, meant) for entry in entries]
    return None if changed == body else changed


def _change_role(entry: Any, taken: list[str], meant: Mapping[str, str]) -> Any:
    role = entry.get("role") if isinstance(entry, dict) else None
    other = meant.get(role) if isinstance(role, str) and role not in taken else None
    return {**entry, "role": other} if other in taken else entry


_OTHER_NAMES = {"developer": "system", "system": "developer"}
_MEANT = {"messages": _OTHER_NAMES, "input": _OTHER_NAMES, "contents": {"function": "user", "tool": "user"}}
"""Clients of Gemini's API gave contents with results the role `function` (memex-lab/dart_agent_core#34)."""
