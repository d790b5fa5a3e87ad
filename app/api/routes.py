"""The routes of the application, but those below `/v1/responses`."""

from starlette.routing import BaseRoute

from app.api import (
    admin,
    convert,
    health,
    keys,
    models,
    pages,
    playground,
    requests,
    status,
    teams,
    upstream_check,
    usage,
)
from app.api.chat import ChatEndpoint
from app.api.context import AppContext
from app.api.resume import ReplyEndpoint, ResumeEndpoint
from app.api.router import AsgiRoute, list_reply_routes
from app.api.token_counts import TokenCountEndpoint
from app.cache import Apply
from app.formats.anthropic import ANTHROPIC
from app.formats.anthropic.body import parse_count_tokens_body, parse_messages_body
from app.formats.base import wrap_error
from app.formats.chat_body import parse_chat_body
from app.formats.openai import OPENAI
from app.formats.openai.body import parse_completions_body


def list_chat_routes(context: AppContext, chat_apply: Apply, apply: Apply) -> list[AsgiRoute]:
    """`chat_apply` says for which requests to `/v1/chat` the cache is used, and `apply` for which others."""
    chat = ChatEndpoint(context, parse_chat_body, "chat", wrap_error, chat_apply)
    completions = ChatEndpoint(context, parse_completions_body, "completions", OPENAI.error, apply)
    messages = ChatEndpoint(context, parse_messages_body, "messages", ANTHROPIC.error, apply, keeps_alias=True)
    count_tokens = TokenCountEndpoint(context, parse_count_tokens_body, asks_api="messages")
    return [
        *list_reply_routes("/v1/chat", chat),
        *list_reply_routes("/v1/chat/completions", completions),
        *list_reply_routes("/v1/messages", messages),
        *list_reply_routes("/v1/messages/count_tokens", count_tokens),
        AsgiRoute("/v1/chat/{response_id}/events", ResumeEndpoint(context), "GET"),
        AsgiRoute("/v1/chat/{response_id}", ReplyEndpoint(context), "GET", "DELETE"),
    ]


def list_other_routes(*, with_playground: bool) -> list[BaseRoute]:
    """The routes themselves: `include_router` would make each of them again for every application."""
    modules = [models, convert, health, admin, keys, teams, status, usage, requests, pages]
    if with_playground:
        modules += [playground, upstream_check]
    return [route for module in modules for route in module.router.routes]
