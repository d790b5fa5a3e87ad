"""The usage of several calls to a model as one."""

from collections.abc import Sequence
from typing import Any

from app.chat.events import Finish


def sum_usage(usages: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the sum of normalized usages; None without any. What is no number is that of the last one; it is `cached`
    if all are, and `estimated` if one is."""
    if not usages:
        return None
    out: dict[str, Any] = {}
    for usage in usages:
        _add(out, usage)
    if "cached" in out:
        out["cached"] = all(usage.get("cached") is True for usage in usages)
        if not out["cached"]:
            del out["cached"]
    if any(usage.get("estimated") is True for usage in usages):
        out["estimated"] = True
    return out


def _add(out: dict[str, Any], usage: dict[str, Any]) -> None:
    for name, value in usage.items():
        known = out.get(name)
        if _is_number(value) and _is_number(known):
            total = known + value
            out[name] = round(total, 12) if isinstance(total, float) else total
        elif isinstance(value, dict):
            nested: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
            _add(nested, value)
            out[name] = nested
        else:
            out[name] = value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_usage(finish: Finish) -> dict[str, Any]:
    """Return the usage of one call to the model, be it an estimate."""
    if finish.usage is not None:
        return finish.usage
    return {**(finish.estimated_usage or {}), "estimated": True}


def count_tokens(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return max(0, int(value)) if isinstance(value, int | float) else 0
