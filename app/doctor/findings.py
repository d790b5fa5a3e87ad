"""The result of one check."""

import json
import re
from typing import Literal, TypeAlias

from msgspec import Struct

Status: TypeAlias = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    subject: str
    """What was checked, such as `upstream local at http://127.0.0.1:8001/v1`."""
    check: str
    """The name of the check, such as `dns`."""
    status: Status
    message: str
    advice: str = ""
    """What to do."""
    settings: tuple[str, ...] = ()
    """The lines for `parley.toml` that the check suggests."""


def toml_key(name: str) -> str:
    """Write a name as part of a table header of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
