"""Pages of a list of items, in the form of OpenAI's APIs."""

import re
from typing import Any
from urllib.parse import parse_qs

from app.api.asgi import Scope
from app.errors import InvalidInput, Violation

MAX_PAGE = 100
_PAGE = 20


def parse_query(scope: Scope) -> dict[str, str]:
    """Return the last value of each parameter."""
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in query.items()}


def select_page(items: list[Any], query: dict[str, str]) -> dict[str, Any]:
    """Return the page that `limit`, `order` and `after` select; the newest items come first. Raises InvalidInput."""
    limit, order = query.get("limit", str(_PAGE)), query.get("order", "desc")
    violations = []
    if not re.fullmatch(r"[0-9]{1,4}", limit) or not 1 <= int(limit) <= MAX_PAGE:
        violations.append(Violation("limit", f"must be a number from 1 to {MAX_PAGE}"))
    if order not in ("asc", "desc"):
        violations.append(Violation("order", "must be asc or desc"))
    if violations:
        raise InvalidInput(violations)
    return _make_page(items if order == "asc" else items[::-1], int(limit), query.get("after"))


def _make_page(items: list[Any], limit: int, after: str | None) -> dict[str, Any]:
    ids = [item.get("id") for item in items]
    if after is not None and after not in ids:
        raise InvalidInput([Violation("after", f"there is no item {after!r}")])
    start = 0 if after is None else ids.index(after) + 1
    page = items[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0].get("id") if page else None,
        "last_id": page[-1].get("id") if page else None,
        "has_more": start + limit < len(items),
    }
