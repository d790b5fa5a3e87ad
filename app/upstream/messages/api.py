"""Anthropic's Messages API, which several other model servers speak, too."""

from app.profiles import Profile
from app.upstream.api import Api
from app.upstream.messages.assembler import MessageAssembler
from app.upstream.messages.conversation import write_beginning
from app.upstream.messages.decoder import ObjectDecoder, decode, decode_kept
from app.upstream.messages.own import build_own, write_own_beginning
from app.upstream.messages.passed_body import build_passed
from app.upstream.messages.passing import PassingAssembler
from app.upstream.messages.repair import (
    BLOCK_REPAIRS,
    MARK_REPAIRS,
    MEDIA_REPAIRS,
    PREFILL_REPAIR,
    SYSTEM_REPAIRS,
    THINKING_REPAIRS,
    strip_reasoning,
)
from app.upstream.messages.request import build
from app.upstream.refused_fields import SAMPLING, TOOL_FIELDS, make_field_repairs
from app.upstream.refused_schemas import SCHEMA_REPAIRS
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader


def make_reader(reply_id: str) -> ReplyReader:
    decoder = ObjectDecoder(decode)
    return ReplyReader(EventReader(decoder.decode, decoder), MessageAssembler(reply_id))


def make_passing_reader(reply_id: str) -> ReplyReader:
    decoder = ObjectDecoder(decode_kept)
    return ReplyReader(EventReader(decoder.decode, decoder), PassingAssembler(reply_id))


def list_headers(profile: Profile) -> tuple[tuple[bytes, bytes], ...]:
    """Return the beta of `thinking.block_binding`, if the profile sends that."""
    return () if profile.thinking_binding is None else ((b"anthropic-beta", b"thinking-binding-controls-2026-08-01"),)


API = Api(
    "/messages",
    build,
    make_reader,
    fields=frozenset(
        {  # platform.claude.com/docs/en/api/beta/messages/create; Claude Code sends `diagnostics`, `thread` and `betas`
            *("model", "messages", "system", "max_tokens", "metadata", "stop_sequences", "stream", "temperature"),
            *("top_p", "top_k", "thinking", "tools", "tool_choice", "service_tier", "container", "context_management"),
            *("mcp_servers", "cache_control", "inference_geo", "output_config", "output_format", "speed", "betas"),
            *("diagnostics", "thread", "user_profile_id", "workspace_id"),
        }
    ),
    system="system",
    count_path="/messages/count_tokens",
    kind="anthropic_compatible",
    not_counted=frozenset(("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences")),
    key_header="x-api-key",
    key_prefix="",
    # The version of 2026-10-21 refuses temperature, top_p and top_k (platform.claude.com/docs/en/api/versioning).
    headers={"anthropic-version": "2023-06-01"},
    build_own=build_own,
    write_own_beginning=write_own_beginning,
    build_passed=build_passed,
    make_passing_reader=make_passing_reader,
    list_headers=list_headers,
    strip_reasoning=strip_reasoning,
    repairs={
        **SCHEMA_REPAIRS,
        **make_field_repairs(("metadata", *SAMPLING, *TOOL_FIELDS)),
        **PREFILL_REPAIR,
        **SYSTEM_REPAIRS,
        **THINKING_REPAIRS,
        **MARK_REPAIRS,
        **BLOCK_REPAIRS,
        **MEDIA_REPAIRS,
    },
    write_beginning=write_beginning,
    needs_max_tokens=True,
    needs_v1=True,
)
