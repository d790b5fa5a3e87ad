"""`GET /v1/models` and `/v1/models/{model}`: what callers may ask for, in the form that OpenAI's SDKs read."""

import time
from typing import Any

from app.errors import ParleyError, UnknownModel
from app.formats.openai import OPENAI
from app.nearest import did_you_mean
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


async def one(name: str, names: list[str], passthrough: Target | None, client: UpstreamClient) -> dict[str, Any]:
    """The row of one model. Raises UnknownModel, in OpenAI's shape."""
    listed = names if name in names else [row["id"] for row in (await listing(names, passthrough, client))["data"]]
    if name not in listed:
        error = UnknownModel(
            f"there is no model {name!r}{did_you_mean(name, listed)} (GET /v1/models lists all)", "model"
        )
        error.shape = OPENAI.error
        raise error
    return _row(name)


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "parley"}
