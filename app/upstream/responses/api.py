"""Responses: OpenAI's newer API, which shows reasoning and takes it back."""

from typing import Any

from app.chat.token_record import TokenRecord
from app.upstream.api import Api
from app.upstream.refused_fields import OPENAI_REPAIRS, REASONING_REPAIRS
from app.upstream.reply.logprobs import ScoredAssembler, score_items
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.sse import EventReader
from app.upstream.responses.assembler import ResponsesAssembler
from app.upstream.responses.conversation import write_beginning
from app.upstream.responses.decoder import EachEventDecoder, EventDecoder, decode, decode_kept
from app.upstream.responses.own import build_own, write_own_beginning
from app.upstream.responses.passed_body import build_passed
from app.upstream.responses.passing import PassingAssembler
from app.upstream.responses.repair import ITEM_REPAIRS, strip_reasoning
from app.upstream.responses.request import build


def make_reader(reply_id: str) -> ReplyReader:
    decoder = EventDecoder(decode)
    return ReplyReader(EventReader(decoder.decode, decoder), ResponsesAssembler(reply_id))


def make_passing_reader(reply_id: str) -> ReplyReader:
    decoder = EventDecoder(decode_kept)
    return ReplyReader(EventReader(decoder.decode, decoder), PassingAssembler(reply_id))


def make_scored_reader(record: TokenRecord, reply_id: str) -> ReplyReader:
    """Make a reader that records the log probabilities of the reply's tokens."""
    decoder = EachEventDecoder(decode)
    assembler = ScoredAssembler(ResponsesAssembler(reply_id), record)
    return ReplyReader(EventReader(score_items(decoder.decode, _find_tokens), decoder), assembler)


def make_scored_passing_reader(record: TokenRecord, reply_id: str) -> ReplyReader:
    decoder = EachEventDecoder(decode_kept)
    assembler = ScoredAssembler(PassingAssembler(reply_id), record)
    return ReplyReader(EventReader(score_items(decoder.decode, _find_tokens), decoder), assembler)


def _find_tokens(event: Any) -> Any:
    """Return the log probabilities of a delta, or of all texts of a whole reply. Other events of a stream repeat
    them."""
    if not isinstance(event, dict):
        return None
    if event.get("type") == "response.output_text.delta":
        return event.get("logprobs")
    output = event.get("output") if "type" not in event else None
    tokens: list[Any] = []
    for item in output if isinstance(output, list) else ():
        content = item.get("content") if isinstance(item, dict) else None
        for part in content if isinstance(content, list) else ():
            given = part.get("logprobs") if isinstance(part, dict) and part.get("type") == "output_text" else None
            tokens += given if isinstance(given, list) else ()
    return tokens


API = Api(
    "/responses",
    build,
    make_reader,
    fields=frozenset(
        {  # openai-python, types/responses/response_create_params.py; Codex sends `client_metadata`
            *("model", "input", "instructions", "background", "context_management", "conversation", "include"),
            *("max_output_tokens", "max_tool_calls", "metadata", "moderation", "parallel_tool_calls", "prompt"),
            *("previous_response_id", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
            *("reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature"),
            *("text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user", "client_metadata"),
            *("personality", "response_format"),
        }
    ),
    conversation="input",
    system="instructions",
    build_own=build_own,
    write_own_beginning=write_own_beginning,
    build_passed=build_passed,
    make_passing_reader=make_passing_reader,
    compact_path="/responses/compact",
    compacted=frozenset(
        # platform.openai.com/docs/api-reference/responses/compact
        ("model", "input", "instructions", "prompt_cache_key", "prompt_cache_retention", "service_tier")
    ),
    make_scored_reader=make_scored_reader,
    make_scored_passing_reader=make_scored_passing_reader,
    count_path="/responses/input_tokens",
    counted=frozenset(
        # platform.openai.com/docs/api-reference/responses/input-tokens: any other field is refused
        ("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text")
        + ("truncation", "personality")
    ),
    strip_reasoning=strip_reasoning,
    repairs={**OPENAI_REPAIRS, **REASONING_REPAIRS, **ITEM_REPAIRS},
    write_beginning=write_beginning,
)
