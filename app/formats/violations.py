"""Pydantic's errors as violations with a JSON path."""

from collections.abc import Sequence

from pydantic import ValidationError

from app.errors import Violation

_BRANCHES = frozenset({"str", "list[str]", "dict[str,any]", "int", "float", "bool"})
"""Steps that pydantic puts into a path for the branches of a union of plain types."""
_MESSAGES = {"extra_forbidden": "is not a known key", "missing": "is required"}


def violations(error: ValidationError, prefix: str = "") -> list[Violation]:
    """Every place once; what the branches of a union say of it is joined."""
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        message = _MESSAGES.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        said = found.setdefault(json_path(item["loc"], prefix), [])
        if message not in said:
            said.append(message)
    return [Violation(path, "; or ".join(said)) for path, said in found.items()]


def json_path(loc: Sequence[int | str], prefix: str = "") -> str:
    """`messages[2].content[0].image`. Steps in angle brackets name a branch of a union, not a place."""
    path = prefix
    for at, step in enumerate(loc):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<") and not (step in _BRANCHES and at == len(loc) - 1 and at > 0):
            path += f".{step}" if path else step
    return path
