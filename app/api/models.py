"""`GET /v1/models` and `/v1/models/{model}`: what callers may ask for, in the form that OpenAI's SDKs read."""

import logging
import time
from typing import Any

from app.errors import UnknownModel, UpstreamFailed
from app.formats.openai import OPENAI
from app.upstream.catalog import Catalog
from app.upstream.causes import in_words
from app.upstream.model_names import suggestion

log = logging.getLogger("parley.models")

LISTED_SECONDS = 1.0
"""How old a list may be that a caller sees."""


async def listing(names: list[str], catalog: Catalog | None) -> dict[str, Any]:
    """Configured names first, then what the pass-through's server lists, where it answers.

    Raises UpstreamFailed, in OpenAI's shape, where its failure leaves nothing to list.
    """
    if catalog is not None:
        names = [*names, *await _served(catalog, required=not names)]
    return {"object": "list", "data": [_row(name) for name in dict.fromkeys(names)]}


async def one(name: str, names: list[str], catalog: Catalog | None) -> dict[str, Any]:
    """The row of one model. Raises UnknownModel and UpstreamFailed, in OpenAI's shape."""
    listed = names if name in names else [row["id"] for row in (await listing(names, catalog))["data"]]
    if name not in listed:
        hint = suggestion(name, listed)
        error = UnknownModel(f"there is no model {name!r}{hint} (GET /v1/models lists them)", "model")
        error.shape = OPENAI.error
        raise error
    return _row(name)


async def _served(catalog: Catalog, *, required: bool) -> tuple[str, ...]:
    try:
        return await catalog.names(LISTED_SECONDS)
    except UpstreamFailed as error:
        fault, target = error.fault, catalog.target
        fields = {"upstream": target.name, "address": target.base_url, "cause": fault.cause, "reason": in_words(fault)}
        log.warning("upstream %r lists no models: %s", target.name, in_words(fault), extra={"fields": fields})
        if not required:
            return ()
        error.shape = OPENAI.error
        raise


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "parley"}
