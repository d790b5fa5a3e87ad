"""Refuses what only messages of chat completions have, in formats that have something else for it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BeforeValidator, model_validator


def refuse_roles(remedies: Mapping[str, str]) -> BeforeValidator:
    """Return a validator that refuses these roles. Each has the text that follows its name in the message."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in remedies:
            raise ValueError(f"{value} is a role of {remedies[value]}")
        return value

    return BeforeValidator(check)


def refuse_tool_calls(remedy: str) -> Any:
    """Return a validator of a model, which refuses a message with `tool_calls`. `remedy` follows that name."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and value.get("tool_calls"):
            raise ValueError(f"has the tool_calls of {remedy}")
        return value

    return model_validator(mode="before")(check)
