"""JSON as a page shows it: what fits into a line stands on one."""

import json
from typing import Any

WIDTH = 110


def shown(value: Any, indent: str = "", taken: int = 0) -> str:
    """`taken` are the characters that stand before and behind it on its line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + len(indent) + taken <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + "  "
    if isinstance(value, list):
        rows = [inner + shown(one, inner, 1) for one in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return "{\n" + ",\n".join(_filled(value, inner)) + f"\n{indent}}}"


def _filled(value: dict[str, Any], indent: str) -> list[str]:
    """The keys of an object, as many on a line as fit."""
    rows: list[str] = []
    for key, item in value.items():
        head = json.dumps(key, ensure_ascii=False) + ": "
        text = head + shown(item, indent, len(head) + 1)
        if rows and "\n" not in rows[-1] + text and len(rows[-1]) + len(text) + 3 <= WIDTH:
            rows[-1] += f", {text}"
        else:
            rows.append(indent + text)
    return rows
