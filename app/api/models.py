"""`GET /v1/models`: what callers may ask for, in OpenAI's form, so that its SDKs can list it."""

import time
from typing import Any

from app.errors import ParleyError
from app.upstream.client import Target, UpstreamClient


async def listing(names: list[str], passthrough: Target | None, client: UpstreamClient) -> dict[str, Any]:
    """Configured names first, then what the pass-through's server lists, where it answers."""
    if passthrough is not None:
        try:
            listed = await client.models(passthrough)
        except (ParleyError, RecursionError):  # a list may be nested deeper than anything can be read
            listed = []
        names = [*names, *(row["id"] for row in listed if isinstance(row.get("id"), str))]
    return {"object": "list", "data": [_row(name) for name in dict.fromkeys(names)]}


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "parley"}
