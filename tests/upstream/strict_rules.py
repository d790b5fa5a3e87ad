"""What kinds of model servers refuse of a request's body, as data: a server that is as strict as the strictest of its
kind. Written from their documentation and from refusals that users reported, independently of the code that writes
bodies. `openai_rules` and `google_rules` of other tests have the order of messages of two APIs.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from tests.conversations.openai_rules import broken
from tests.upstream.gemini.google_rules import find_broken_rule

Json = dict[str, Any]
Check = Callable[[Json], str | None]
"""Returns what a server says of a body that it refuses."""


@dataclass(frozen=True)
class Rule:
    name: str
    source: str
    api: str
    check: Check
    kinds: tuple[str, ...] = ()
    """The kinds of servers with this rule; none: all of this API."""


RULES: list[Rule] = []


def rule(name: str, source: str, api: str, *kinds: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        RULES.append(Rule(name, source, api, check, kinds))
        return check

    return add


def find_refusal(body: Json, api: str, kind: str) -> str | None:
    """Return the first rule that a body breaks, with what breaks it."""
    for one in RULES:
        if one.api == api and (not one.kinds or kind in one.kinds):
            fault = one.check(body)
            if fault is not None:
                return f"{one.name}: {fault}"
    return None


def walk(value: Any) -> Iterator[Any]:
    """Yield each value inside a JSON value."""
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(one)


def one_of(*faults: str | None) -> str | None:
    return next(filter(None, faults), None)


# -- chat completions

CHAT = "chat_completions"
_PLACEHOLDER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_REASONING = ("mistral", "groq", "openai", "xai", "llamacpp_python")
_STRICT_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "stop", "tools"),
        *("tool_choice", "parallel_tool_calls", "response_format", "presence_penalty", "frequency_penalty", "n"),
    }
)
"""What the strictest servers know."""
_MORE_FIELDS = {
    "openai": {
        *("max_completion_tokens", "seed", "logit_bias", "logprobs", "top_logprobs", "user", "metadata", "store"),
        *("reasoning_effort", "prompt_cache_key", "safety_identifier", "service_tier", "verbosity", "prediction"),
        *("modalities", "audio", "web_search_options", "functions", "function_call", "prompt_cache_retention"),
    },
    "mistral": {"random_seed", "safe_prompt", "prediction", "reasoning_effort", "prompt_mode", "guardrails"},
    "groq": {
        *("max_completion_tokens", "seed", "logit_bias", "logprobs", "top_logprobs", "user", "reasoning_effort"),
        *("reasoning_format", "include_reasoning", "service_tier", "search_settings", "metadata", "store"),
    },
    "gemini": {"max_completion_tokens", "reasoning_effort", "extra_body", "user"},
    "deepseek": {"thinking", "logprobs", "top_logprobs", "reasoning_effort", "user"},
}


def functions(body: Json) -> list[Json]:
    return [tool["function"] for tool in body.get("tools", ()) if "function" in tool]


def of_role(body: Json, role: str) -> list[Json]:
    return [message for message in body["messages"] if message["role"] == role]


@rule("order of messages", "tests/conversations/openai_rules.py", CHAT)
def _order(body: Json) -> str | None:
    plain = [
        {key: one for key, one in message.items() if key not in ("cache_control", "reasoning_details")}
        for message in body["messages"]
    ]
    known = [_without_marks(message) for message in plain]
    return broken(known)


def _without_marks(message: Json) -> Json:
    content = message.get("content", "" if message.get("tool_calls") else None)
    if isinstance(content, list):
        content = [{key: one for key, one in part.items() if key != "cache_control"} for part in content]
        if message["role"] == "tool":
            content = "\n".join(part.get("text", "") for part in content)
    calls = [
        {key: one for key, one in call.items() if key != "extra_content"} for call in message.get("tool_calls", ())
    ]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}


def _make_field_check(kind: str) -> Check:
    def check(body: Json) -> str | None:
        unknown = body.keys() - _STRICT_FIELDS - _MORE_FIELDS[kind]
        return f"Unknown name {min(unknown)!r}: Cannot find field" if unknown else None

    return check


for _kind in _MORE_FIELDS:
    rule("unknown fields", f"the reference of {_kind}: `lacks` in profiles/kinds.py", CHAT, _kind)(
        _make_field_check(_kind)
    )


@rule("reasoning in the history", "janhq/jan issue 8136; Gage-Technologies/mistral-go PR 2", CHAT, *_NO_REASONING)
def _no_reasoning_content(body: Json) -> str | None:
    found = [message for message in of_role(body, "assistant") if "reasoning_content" in message]
    return f"reasoning_content is unsupported: {found[0]}" if found else None


@rule(
    "reasoning of calls",
    "api-docs.deepseek.com/guides/thinking_mode; MoonshotAI/kimi-cli issue 2141",
    CHAT,
    "deepseek",
    "moonshot",
)
def _reasoning_of_calls(body: Json) -> str | None:
    off = body.get("thinking") == {"type": "disabled"}
    lacking = [one for one in of_role(body, "assistant") if one.get("tool_calls") and not one.get("reasoning_content")]
    return f"reasoning_content must be passed back: {lacking[0]}" if lacking and not off else None


@rule(
    "names of functions",
    "openai/codex issue 8174; mrexodia/ida-pro-mcp issue 129; Kochava-Studios/witsy PR 164",
    CHAT,
    "openai",
    "deepseek",
    "mistral",
)
def _names(body: Json) -> str | None:
    calls = [call["function"]["name"] for one in of_role(body, "assistant") for call in one.get("tool_calls", ())]
    wrong = [name for name in [*(one["name"] for one in functions(body)), *calls] if not _PLACEHOLDER.fullmatch(name)]
    return f"the name {wrong[0]!r}" if wrong else None


@rule("names of functions are unique", '"tools: Tool names must be unique."', CHAT)
def _unique_names(body: Json) -> str | None:
    names = [one["name"] for one in functions(body)]
    return "two functions of one name" if len(names) > len(set(names)) else None


@rule("length of ids", "anomalyco/opencode issue 12653; vercel/ai issue 5171", CHAT, "openai")
def _ids(body: Json) -> str | None:
    ids = [call["id"] for one in of_role(body, "assistant") for call in one.get("tool_calls", ())]
    return next((f"the id {one!r}" for one in ids if len(one) > 40), None)


@rule("form of ids", "vllm-project/vllm issue 47734", CHAT, "mistral")
def _mistral_ids(body: Json) -> str | None:
    ids = [call["id"] for one in of_role(body, "assistant") for call in one.get("tool_calls", ())]
    return next((f"the id {one!r}" for one in ids if not re.fullmatch("[A-Za-z0-9]{9}", one)), None)


@rule("parameters are an object", "google-gemini/gemini-cli issue 23382; langchain-ai/langchainjs issue 9804", CHAT)
def _parameters(body: Json) -> str | None:
    for one in functions(body):
        schema = one.get("parameters")
        if (
            not isinstance(schema, dict)
            or schema.get("type") != "object"
            or not isinstance(schema.get("properties"), dict)
        ):
            return f"the parameters {schema}"
    return None


@rule(
    "alternatives of parameters",
    "nspady/google-calendar-mcp issue 39; MoonshotAI/kimi-code issue 2661",
    CHAT,
    "openai",
    "moonshot",
)
def _alternatives(body: Json) -> str | None:
    wrong = [one for one in functions(body) if one["parameters"].keys() & {"anyOf", "oneOf", "allOf"}]
    return f"alternatives at the top: {wrong[0]}" if wrong else None


@rule("types in parameters", "openclaw/openclaw issue 113130; nicobailon/pi-subagents issue 127", CHAT, "moonshot")
def _typed(body: Json) -> str | None:
    for one in functions(body):
        for name, schema in one["parameters"]["properties"].items():
            if isinstance(schema, dict) and not schema.keys() & {"type", "anyOf", "oneOf", "$ref", "allOf"}:
                return f"no type: {name}"
            if isinstance(schema, dict) and "type" in schema and "anyOf" in schema:
                return f"a type beside anyOf: {name}"
    return None


@rule("no nulls in functions", "openai 3.57.0, types/shared_params/function_definition.py", CHAT)
def _no_nulls(body: Json) -> str | None:
    return next(
        (f"null: {one}" for one in functions(body) if None in (one.get("strict", 1), one.get("description", 1))), None
    )


@rule(
    "one system message, first",
    "vllm-project/vllm issue 41114; openclaw/openclaw issue 19386; charmbracelet/crush issue 279",
    CHAT,
    "vllm",
    "sglang",
    "llamacpp",
    "lmstudio",
    "minimax",
    "mistral",
    "llamacpp_python",
    "transformers",
)
def _system(body: Json) -> str | None:
    roles = [message["role"] for message in body["messages"]]
    return f"system messages: {roles}" if "system" in roles[1:] else None


@rule(
    "a user's message",
    "Qwen/Qwen3.5-35B-A3B, chat_template.jinja: No user query found in messages; anomalyco/opencode issue 2557",
    CHAT,
    "vllm",
    "sglang",
    "llamacpp",
    "lmstudio",
    "zhipu",
)
def _user(body: Json) -> str | None:
    return None if of_role(body, "user") or len(body["messages"]) == 0 else "No user query found in messages."


@rule("roles alternate", "charmbracelet/crush issue 279; datapizza-labs/datapizza-ai issue 98", CHAT, "mistral")
def _alternate(body: Json) -> str | None:
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    for before, after in zip(roles, roles[1:], strict=False):
        if (before, after) in (("user", "user"), ("assistant", "assistant"), ("tool", "user")):
            return f"{after} behind {before}"
    return None


@rule(
    "number of stop words",
    "platform.openai.com; docs.z.ai; platform.kimi.ai",
    CHAT,
    "openai",
    "groq",
    "zhipu",
    "siliconflow",
    "moonshot",
)
def _stop(body: Json) -> str | None:
    stop = body.get("stop")
    return f"{len(stop)} stop words" if isinstance(stop, list) and not 0 < len(stop) <= 5 else None


@rule(
    "temperature up to 1",
    "theopenco/llmgateway PR 3268: The temperature parameter is illegal; platform.kimi.ai",
    CHAT,
    "zhipu",
    "moonshot",
)
def _temperature_up_to_1(body: Json) -> str | None:
    given = body.get("temperature") or 0
    return f"temperature {given}" if given > 1 else None


@rule(
    "one limit of tokens",
    "\"Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.\"",
    CHAT,
)
def _one_limit(body: Json) -> str | None:
    return "two limits" if "max_tokens" in body and "max_completion_tokens" in body else None


@rule(
    "the newer limit of tokens",
    "\"Unsupported parameter: 'max_tokens' is not supported with this model.\"",
    CHAT,
    "openai",
)
def _new_limit(body: Json) -> str | None:
    return "max_tokens" if "max_tokens" in body else None


@rule("no choice without tools", '"tool_choice is only allowed when tools are specified" (openai)', CHAT)
def _no_choice(body: Json) -> str | None:
    lone = body.keys() & {"tool_choice", "parallel_tool_calls"}
    return f"{lone} without tools" if lone and not body.get("tools") else None


@rule("no empty list of tools", "\"[] is too short - 'tools'\" (openai)", CHAT)
def _no_empty_tools(body: Json) -> str | None:
    return one_of("tools: []" if body.get("tools") == [] else None, "stop: []" if body.get("stop") == [] else None)


@rule(
    "named choice",
    "lmstudio-ai: \"Invalid tool_choice type: 'object'\"; docs.z.ai: auto alone",
    CHAT,
    "lmstudio",
    "zhipu",
    "transformers",
    "ollama",
    "llamacpp",
)
def _named(body: Json) -> str | None:
    return "an object as tool_choice" if isinstance(body.get("tool_choice"), dict) else None


@rule(
    "words of the choice", "platform.moonshot.ai, migrating; api.mistral.ai: any", CHAT, "moonshot", "mistral", "zhipu"
)
def _words(body: Json) -> str | None:
    return "required" if body.get("tool_choice") == "required" else None


@rule("stream options", '"stream_options" only with stream (openai); dnakov/anon-kode issue 53', CHAT)
def _stream_options(body: Json) -> str | None:
    return "stream_options without stream" if "stream_options" in body and not body.get("stream") else None


@rule("no stream options", "dnakov/anon-kode issue 53", CHAT, "mistral", "llamacpp_python")
def _no_stream_options(body: Json) -> str | None:
    return "stream_options" if "stream_options" in body else None


def _make_format_check(*types: str) -> Check:
    def check(body: Json) -> str | None:
        kind = body.get("response_format", {}).get("type", "text")
        return None if kind in types else f"response_format {kind}"

    return check


rule("types of formats", "api-docs.deepseek.com; docs.z.ai", CHAT, "deepseek", "zhipu")(
    _make_format_check("text", "json_object")
)
rule("types of formats", "lmstudio-ai/lmstudio-bug-tracker issue 189", CHAT, "lmstudio")(
    _make_format_check("text", "json_schema")
)


@rule("format beside tools", "googleapis/python-genai issue 867", CHAT, "gemini")
def _format_beside_tools(body: Json) -> str | None:
    kind = body.get("response_format", {}).get("type", "text")
    return "response_format beside tools" if kind != "text" and body.get("tools") else None


@rule(
    "the word json",
    "\"'messages' must contain the word 'json' in some form\" (openai, deepseek, dashscope)",
    CHAT,
    "openai",
    "deepseek",
    "dashscope",
    "openrouter",
    "groq",
)
def _says_json(body: Json) -> str | None:
    wants = body.get("response_format", {}).get("type") == "json_object"
    return (
        "'messages' must contain the word 'json' in some form"
        if wants and "json" not in json.dumps(body["messages"]).lower()
        else None
    )


@rule(
    "forced choice while thinking",
    "cloudwego/eino issue 994; deepseek-ai/DeepSeek-V3 issue 1376; can1357/oh-my-pi issue 827",
    CHAT,
    "dashscope",
    "deepseek",
    "moonshot",
)
def _forced(body: Json) -> str | None:
    thinks = (
        body.get("enable_thinking") is True
        or body.get("thinking", {}).get("type") == "enabled"
        or bool(body.get("reasoning_effort"))
    )
    return "tool_choice while thinking" if thinks and body.get("tool_choice") not in (None, "auto", "none") else None


@rule("effort or switch", "HKUDS/nanobot issue 3939", CHAT, "moonshot")
def _two_switches(body: Json) -> str | None:
    return "thinking and reasoning_effort" if "thinking" in body and "reasoning_effort" in body else None


@rule("effort or budget", "omeryasirkucuk/amx PR 66", CHAT, "openrouter")
def _effort_or_budget(body: Json) -> str | None:
    inner = body.get("reasoning", {})
    both = "max_tokens" in inner and ("effort" in inner or "reasoning_effort" in body)
    return "an effort and a budget" if both else None


@rule("largest budget", "QwenLM/Qwen-Agent PR 946", CHAT, "dashscope")
def _budget(body: Json) -> str | None:
    return "thinking_budget" if body.get("thinking_budget", 1) > 38912 else None


@rule(
    "cache marks",
    "openai: Unknown parameter 'cache_control'; groq: property is unsupported",
    CHAT,
    "openai",
    "groq",
    "mistral",
    "deepseek",
    "gemini",
    "xai",
    "transformers",
)
def _marks(body: Json) -> str | None:
    found = [one for one in walk(body["messages"]) if isinstance(one, dict) and "cache_control" in one]
    found += [tool for tool in body.get("tools", ()) if "cache_control" in tool]
    return f"cache_control: {found[0]}" if found else None


@rule(
    "fields of messages",
    "openai 3.57.0, types/chat; mistralai 3.7.0, client/models; groq 1.7.0, types/chat",
    CHAT,
    "openai",
    "mistral",
    "groq",
)
def _fields_of_messages(body: Json) -> str | None:
    known = {"role", "content", "tool_calls", "tool_call_id", "name", "prefix", "reasoning", "refusal", "audio"}
    found = [message.keys() - known for message in body["messages"] if message.keys() - known]
    calls = [call.keys() - {"id", "type", "function"} for one in body["messages"] for call in one.get("tool_calls", ())]
    return next((f"unknown in a message: {sorted(one)}" for one in [*found, *calls] if one), None)


@rule("names of messages", "mistralai 3.7.0: of all messages, tool messages alone have a name", CHAT, "mistral")
def _names_of_messages(body: Json) -> str | None:
    return next((f"name: {one}" for one in body["messages"] if "name" in one and one["role"] != "tool"), None)


@rule("signatures of calls", "ai.google.dev/gemini-api/docs/thought-signatures, FAQ", CHAT, "gemini")
def _signatures(body: Json) -> str | None:
    for one in of_role(body, "assistant"):
        calls = one.get("tool_calls")
        if calls and not calls[0].get("extra_content", {}).get("google", {}).get("thought_signature"):
            return f"no signature: {calls[0]}"
    return None


@rule("temperature", '"temperature must be between 0 and 2" (openai, deepseek)', CHAT)
def _temperature(body: Json) -> str | None:
    return None if 0 <= body.get("temperature", 1) <= 2 else "temperature"


@rule(
    "content of assistants",
    "\"with role 'assistant' must not be empty\" (lobehub/lobehub PR 8419); charmbracelet/crush issue 964",
    CHAT,
    "moonshot",
    "xai",
)
def _content(body: Json) -> str | None:
    empty = [one for one in of_role(body, "assistant") if not one.get("content") and not one.get("tool_calls")]
    return f"an empty message: {empty[0]}" if empty else None


# -- Anthropic's Messages

MESSAGES = "messages"
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")


def blocks_of(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def all_blocks(body: Json) -> list[Json]:
    return [block for message in body["messages"] for block in blocks_of(message)]


@rule(
    "a message, of the user first",
    '"messages: at least one message is required" (langchain-ai/langchain issue 30764)',
    MESSAGES,
)
def _first(body: Json) -> str | None:
    return None if body["messages"] else "no message"


@rule("content is not empty", '"messages.1: all messages must have non-empty content"', MESSAGES)
def _non_empty(body: Json) -> str | None:
    return next((f"empty: {one}" for one in body["messages"] if not one["content"]), None)


@rule("texts are not blank", "anthropics/claude-code issues 53054 and 23440", MESSAGES)
def _blank(body: Json) -> str | None:
    system = body.get("system")
    texts = [*all_blocks(body), *(system if isinstance(system, list) else ())]
    return next((f"blank: {one}" for one in texts if one["type"] == "text" and not one["text"].strip()), None)


@rule("results directly behind calls", "NousResearch/hermes-agent issue 65369", MESSAGES)
def _results(body: Json) -> str | None:
    waiting: list[str] = []
    for place, (_, run) in enumerate(groupby(body["messages"], key=itemgetter("role"))):
        blocks = [block for message in run for block in blocks_of(message)]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            return f"[{place}]: results {results} of {waiting}"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            return f"[{place}]: a block before a result"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return f"no results of {waiting}" if waiting else None


@rule(
    "ids of calls",
    '"tool_use.id: String should match pattern \'^[a-zA-Z0-9_-]+$\'", "tool_use ids must be unique"',
    MESSAGES,
)
def _tool_use_ids(body: Json) -> str | None:
    ids = [block["id"] for block in all_blocks(body) if block["type"] == "tool_use"]
    wrong = [one for one in ids if not _ANTHROPIC_ID.fullmatch(one)]
    return one_of(f"the id {wrong[0]!r}" if wrong else None, "ids are used twice" if len(ids) > len(set(ids)) else None)


@rule("input is an object", '"tool_use.input: Input should be a valid dictionary"', MESSAGES)
def _input(body: Json) -> str | None:
    return next(
        (f"{one}" for one in all_blocks(body) if one["type"] == "tool_use" and not isinstance(one["input"], dict)), None
    )


@rule("names of functions", 'github/copilot-cli issue 1879; "tools: Tool names must be unique."', MESSAGES)
def _tool_names(body: Json) -> str | None:
    names = [tool["name"] for tool in body.get("tools", ())]
    wrong = [name for name in names if not re.fullmatch("[a-zA-Z0-9_-]{1,128}", name)]
    return one_of(f"the name {wrong[0]!r}" if wrong else None, "not unique" if len(names) > len(set(names)) else None)


@rule(
    "parameters",
    'anomalyco/opencode issue 35516; "tools.0.custom.input_schema.type: Field required"',
    MESSAGES,
    "anthropic",
)
def _input_schema(body: Json) -> str | None:
    for tool in body.get("tools", ()):
        schema = tool.get("input_schema", {"type": "object"})
        if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
            return f"input_schema {schema}"
    return None


@rule("four cache marks", "Yeachan-Heo/gajae-code issue 3934", MESSAGES)
def _four_marks(body: Json) -> str | None:
    plain = {
        **body,
        "messages": [{"content": [{**block, "input": 0} for block in blocks_of(one)]} for one in body["messages"]],
    }
    plain["tools"] = [{"cache_control": 1} for tool in body.get("tools", ()) if tool.get("cache_control")]
    found = [one for one in walk(plain) if isinstance(one, dict) and one.get("cache_control")]
    return f"{len(found)} marks" if len(found) > 4 else None


@rule("no marks on thinking", "LeenHawk/gproxy issue 67", MESSAGES)
def _marked_thinking(body: Json) -> str | None:
    return next((f"{one}" for one in all_blocks(body) if one["type"] == "thinking" and "cache_control" in one), None)


@rule("thinking is signed", "platform.claude.com, extended thinking", MESSAGES, "anthropic")
def _signed(body: Json) -> str | None:
    return next((f"{one}" for one in all_blocks(body) if one["type"] == "thinking" and not one.get("signature")), None)


@rule(
    "sampling while thinking", "platform.claude.com, extended thinking: temperature 1, no top_k", MESSAGES, "anthropic"
)
def _sampling(body: Json) -> str | None:
    if body.get("thinking", {}).get("type", "disabled") == "disabled":
        return None
    return "temperature or top_k" if body.get("temperature", 1) != 1 or "top_k" in body else None


@rule("forced choice while thinking", "platform.claude.com, extended thinking", MESSAGES, "anthropic")
def _forced_choice(body: Json) -> str | None:
    thinks = body.get("thinking", {}).get("type", "disabled") != "disabled"
    return "tool_choice" if thinks and body.get("tool_choice", {}).get("type") in ("any", "tool") else None


@rule(
    "budget below the limit",
    '"max_tokens must be greater than thinking.budget_tokens"; at least 1024',
    MESSAGES,
    "anthropic",
    "anthropic_compatible",
)
def _budget_tokens(body: Json) -> str | None:
    budget = body.get("thinking", {}).get("budget_tokens")
    return None if budget is None or 1024 <= budget < body["max_tokens"] else f"budget {budget} of {body['max_tokens']}"


@rule("range of temperature", '"temperature: range: 0..1"', MESSAGES, "anthropic")
def _range(body: Json) -> str | None:
    return None if 0 <= body.get("temperature", 1) <= 1 else "temperature"


@rule("temperature or top_p", "open-webui/pipelines PR 546", MESSAGES, "anthropic")
def _either(body: Json) -> str | None:
    return "both" if "temperature" in body and "top_p" in body else None


@rule("stop words", '"stop_sequences: each stop sequence must contain non-whitespace"', MESSAGES)
def _stop_sequences(body: Json) -> str | None:
    return next(("a blank one" for one in body.get("stop_sequences", ()) if not one.strip()), None)


@rule("fields", "anthropic 2.14.0, types/message_create_params.py: Extra inputs are not permitted", MESSAGES)
def _fields(body: Json) -> str | None:
    known = {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "top_p")
    }
    known |= {*("temperature", "top_k", "stop_sequences", "stream", "metadata", "cache_control", "service_tier")}
    known |= {"context_management", "container", "mcp_servers", "chat_template_kwargs"}
    unknown = body.keys() - known
    return f"Unknown name {min(unknown)!r}: Cannot find field" if unknown else None


@rule("a choice needs tools", '"tool_choice may only be specified while providing tools"', MESSAGES)
def _choice(body: Json) -> str | None:
    return "tool_choice" if "tool_choice" in body and not body.get("tools") else None


@rule("no white space at the end", '"final assistant content cannot end with trailing whitespace"', MESSAGES)
def _trailing(body: Json) -> str | None:
    last = body["messages"][-1]
    block = blocks_of(last)[-1]
    ends = last["role"] == "assistant" and block["type"] == "text" and block["text"] != block["text"].rstrip()
    return "white space at the end" if ends else None


@rule("an error has a text", "openclaw/openclaw issue 97292", MESSAGES)
def _error_text(body: Json) -> str | None:
    found = [
        one
        for one in all_blocks(body)
        if one["type"] == "tool_result" and one.get("is_error") and not one.get("content")
    ]
    return f"{found[0]}" if found else None


# -- OpenAI's Responses

RESPONSES = "responses"


@rule(
    "results of calls",
    '"No tool output found for function call", "No tool call found for function call output"',
    RESPONSES,
)
def _outputs(body: Json) -> str | None:
    items = body["input"] if isinstance(body["input"], list) else []
    calls = [one["call_id"] for one in items if one.get("type") == "function_call"]
    results = [one["call_id"] for one in items if one.get("type") == "function_call_output"]
    return None if sorted(calls) == sorted(results) else f"{calls} and {results}"


@rule("length of ids", "NousResearch/hermes-agent issue 73492", RESPONSES)
def _call_ids(body: Json) -> str | None:
    items = body["input"] if isinstance(body["input"], list) else []
    return next((one["call_id"] for one in items if not 0 < len(one.get("call_id", "x")) <= 64), None)


@rule("names of functions", "openai/codex issue 8174", RESPONSES, "openai")
def _response_names(body: Json) -> str | None:
    items = body["input"] if isinstance(body["input"], list) else []
    names = [tool.get("name", "x") for tool in body.get("tools", ())]
    names += [one["name"] for one in items if one.get("type") == "function_call"]
    return next((f"the name {name!r}" for name in names if not _PLACEHOLDER.fullmatch(name)), None)


@rule("fields", "openai 3.57.0, types/responses/response_create_params.py: Unknown parameter", RESPONSES, "openai")
def _response_fields(body: Json) -> str | None:
    known = {*("model", "input", "instructions", "include", "max_output_tokens", "metadata", "parallel_tool_calls")}
    known |= {*("previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "store")}
    known |= {*("stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p")}
    known |= {"truncation", "user", "client_metadata", "prompt_cache_retention"}
    unknown = body.keys() - known
    return f"Unknown name {min(unknown)!r}: Cannot find field" if unknown else None


@rule("least limit of tokens", "langchain-ai/langchain: Expected a value >= 16", RESPONSES, "openai")
def _least(body: Json) -> str | None:
    return None if (body.get("max_output_tokens") or 16) >= 16 else "max_output_tokens"


@rule("something to answer", "\"One of 'input' or 'previous_response_id' ... must be provided\"", RESPONSES)
def _something(body: Json) -> str | None:
    return None if body.get("input") else "no input"


@rule("parts of content", "\"Invalid value: 'text'. Supported values are: 'input_text' ...\"", RESPONSES)
def _parts(body: Json) -> str | None:
    known = {"input_text", "output_text", "input_image", "input_file", "input_audio", "refusal"}
    for item in body["input"] if isinstance(body["input"], list) else ():
        for part in (
            item["content"] if isinstance(item.get("content"), list) and item.get("type") != "reasoning" else ()
        ):
            if part["type"] not in known or (part["type"] == "output_text") != (
                item.get("role") == "assistant" and part["type"] != "refusal"
            ):
                return f"the part {part} of {item['role']}"
    return None


@rule("parameters", "langchain-ai/langchainjs issue 9804", RESPONSES)
def _response_parameters(body: Json) -> str | None:
    if any("type" not in tool for tool in body.get("tools", ())):
        return "Missing required parameter: 'tools[0].type'"
    schemas = [tool.get("parameters") or {} for tool in body.get("tools", ()) if tool.get("type") == "function"]
    return next((f"the parameters {one}" for one in schemas if one.get("type", "object") != "object"), None)


@rule("a choice needs tools", "\"Tool choice 'required' must be specified with 'tools' parameter.\"", RESPONSES)
def _response_choice(body: Json) -> str | None:
    return "tool_choice" if body.get("tool_choice") not in (None, "auto", "none") and not body.get("tools") else None


@rule("items", 'lidge-jun/opencodex issue 4454: "unknown item type", and the list of those it knows', RESPONSES, "xai")
def _xai_items(body: Json) -> str | None:
    known = {*("message", "reasoning", "function_call", "function_call_output", "shell_call", "shell_call_output")}
    known |= {*("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "custom_tool_call")}
    known |= {"image_generation_call", "compaction"}
    items = body["input"] if isinstance(body["input"], list) else []
    return next((f"the item {one['type']!r}" for one in items if one.get("type", "message") not in known), None)


@rule(
    "tools",
    'maximhq/bifrost issue 5428: "unknown variant `namespace`", and the list of those it knows',
    RESPONSES,
    "xai",
)
def _xai_tools(body: Json) -> str | None:
    known = {*("function", "web_search", "x_search", "image_generation", "collections_search", "file_search")}
    known |= {*("code_execution", "code_interpreter", "mcp", "shell")}
    return next((f"the tool {one['type']!r}" for one in body.get("tools", ()) if one["type"] not in known), None)


# -- Google's Gemini

GEMINI = "gemini"


@rule("order of contents", "tests/upstream/gemini/google_rules.py", GEMINI)
def _contents(body: Json) -> str | None:
    contents: list[Json] = []
    for one in body["contents"]:  # neighbours of one role are read as one content
        parts = [_without_thought(part) for part in one["parts"]]
        if contents and contents[-1]["role"] == one["role"]:
            contents[-1]["parts"] += parts
        else:
            contents.append({**one, "parts": parts})
    fault = find_broken_rule({**body, "contents": contents})
    return "Function call is missing a thought_signature" if fault and "has no signature" in fault else fault


def _without_thought(part: Json) -> Json:
    """Return a part as `google_rules` knows it: of thoughts, it has none."""
    return {name: one for name, one in part.items() if name != "thought"}


@rule("fields", "ai.google.dev/api/generate-content: Unknown name", GEMINI)
def _gemini_fields(body: Json) -> str | None:
    known = {*("contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings")}
    known |= {"cachedContent", "labels", "store", "serviceTier"}
    unknown = body.keys() - known
    return f"Unknown name {min(unknown)!r}: Cannot find field" if unknown else None


@rule("stop words", "ai.google.dev/api/generate-content: at most five", GEMINI)
def _gemini_stop(body: Json) -> str | None:
    words = body.get("generationConfig", {}).get("stopSequences", ())
    return "stopSequences" if len(words) > 5 or "" in words else None


@rule("a system instruction has a text", '"systemInstruction.parts: must have at least one"', GEMINI)
def _gemini_system(body: Json) -> str | None:
    system = body.get("systemInstruction")
    return None if system is None or any(part.get("text") for part in system["parts"]) else "no text"


def count() -> dict[str, int]:
    """Return how many rules there are for each API."""
    return {api: sum(one.api == api for one in RULES) for api in (CHAT, MESSAGES, RESPONSES, GEMINI)}


def list_sources() -> Sequence[str]:
    return [one.source for one in RULES]
