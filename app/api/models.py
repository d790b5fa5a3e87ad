"""`GET /v1/models` and `/v1/models/{model}`: what callers may ask for, in the form that OpenAI's SDKs read."""

import logging
import time
from typing import Any

from app.errors import UnknownModel, UpstreamFailed
from app.upstream.catalog import Catalog
from app.upstream.causes import describe_fault
from app.upstream.model_names import suggest_model

log = logging.getLogger("parley.models")

MAX_LIST_AGE_SECONDS = 1.0
"""How old a list may be that a caller sees."""


async def list_models(names: list[str], catalog: Catalog | None) -> dict[str, Any]:
    """Configured names first, then what the pass-through's server lists, where it answers.

    Raises UpstreamFailed where its failure leaves nothing to list.
    """
    if catalog is not None:
        names = [*names, *await _list_passthrough_models(catalog, required=not names)]
    return {"object": "list", "data": [_row(name) for name in dict.fromkeys(names)]}


async def get_model(name: str, names: list[str], catalog: Catalog | None) -> dict[str, Any]:
    """The row of one model. Raises UnknownModel and UpstreamFailed."""
    listed = names if name in names else [row["id"] for row in (await list_models(names, catalog))["data"]]
    if name not in listed:
        hint = suggest_model(name, listed)
        raise UnknownModel(f"there is no model {name!r}{hint} (GET /v1/models lists them)", "model")
    return _row(name)


async def _list_passthrough_models(catalog: Catalog, *, required: bool) -> tuple[str, ...]:
    try:
        return await catalog.names(MAX_LIST_AGE_SECONDS)
    except UpstreamFailed as error:
        fault, target = error.fault, catalog.target
        fields = {
            "upstream": target.name,
            "address": target.base_url,
            "cause": fault.cause,
            "reason": describe_fault(fault),
        }
        log.warning("upstream %r lists no models: %s", target.name, describe_fault(fault), extra={"fields": fields})
        if not required:
            return ()
        raise


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "parley"}
