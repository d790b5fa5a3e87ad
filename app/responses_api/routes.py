"""The routes of `/v1/responses` and below it."""

from app.api.context import AppContext
from app.api.router import AsgiRoute, list_reply_routes
from app.cache import Apply
from app.config.settings import Settings
from app.config.storage import keeps_state
from app.responses_api.background import BackgroundRuns
from app.responses_api.record import StoredResponses
from app.responses_api.reply import make_endpoint, make_token_count
from app.responses_api.stored_endpoints import list_routes


def make_stored_responses(settings: Settings, context: AppContext) -> StoredResponses:
    return StoredResponses(
        context.state,
        enabled=settings.responses.store and keeps_state(settings.cache),
        ttl_seconds=settings.responses.store_seconds,
        max_bytes=settings.cache.max_entry_bytes,
    )


def list_response_routes(
    context: AppContext, stored: StoredResponses, background: BackgroundRuns, apply: Apply
) -> list[AsgiRoute]:
    """`apply` says for which requests the cache is used."""
    return [
        *list_reply_routes("/v1/responses", make_endpoint(context, stored, background, apply)),
        AsgiRoute("/v1/responses/input_tokens", make_token_count(context, stored), "POST"),
        *list_routes(context, stored, background),
    ]
