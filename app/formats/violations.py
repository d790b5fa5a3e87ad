"""Pydantic's errors as violations with a JSON path."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from app.errors import Violation


def violations(error: ValidationError, prefix: str = "") -> list[Violation]:
    """Every error once. Steps of a path in angle brackets name a branch of a union, not a place."""
    found = (
        _violation(item, prefix) for item in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return list(dict.fromkeys(found))


def _violation(item: Any, prefix: str) -> Violation:
    message = str(item["msg"]).removeprefix("Value error, ")
    return Violation(json_path(item["loc"], prefix), message)


def json_path(loc: Sequence[int | str], prefix: str = "") -> str:
    path = prefix
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<"):
            path += f".{step}" if path else step
    return path
