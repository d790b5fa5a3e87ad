"""`GET /v1/models`: what callers may ask for, in OpenAI's form, so that its SDKs can list it."""

import time
from typing import Any

from app.errors import ParleyError
from app.upstream.client import Target, UpstreamClient


async def listing(names: list[str], passthrough: Target | None, client: UpstreamClient) -> dict[str, Any]:
    """Configured names first, then what the pass-through's server lists, where it answers."""
    rows = [_row(name) for name in names]
    if passthrough is not None:
        try:
            listed = await client.models(passthrough)
        except ParleyError:
            listed = []
        rows += (_row(row["id"]) for row in listed if isinstance(row.get("id"), str) and row["id"] not in names)
    return {"object": "list", "data": rows}


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "parley"}
