"""Bodies of clients of every format, odd but legal ones too, each text of which is found again in what is sent."""

import json
from random import Random
from typing import Any

from tests.conversations.random_conversations import WRITERS, Act, script

Json = dict[str, Any]
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/{}:generateContent",
}


def mark_words(acts: list[Act]) -> list[Act]:
    """Return the acts in which each text that is not blank is one of its own, so that a lost one is found."""
    marked: list[Act] = []
    for place, (what, value) in enumerate(acts):
        word = f"w{place}x"
        if what == "call":
            value = (value[0], value[1], json.dumps({"a": word}))
        elif what == "result":
            value = (value[0], value[1], word if value[2].strip() else value[2])
        elif value.strip():
            value = word
        marked.append((what, value))
    return marked


def list_words(acts: list[Act]) -> list[str]:
    """Return the texts that a server must be sent, or a warning must name. Of reasoning, profiles decide."""
    words = [value[2] if what == "result" else value for what, value in acts if what not in ("think", "call")]
    return [word for word in words if word.strip()]


SCHEMAS: tuple[Any, ...] = (
    {"type": "object", "properties": {"a": {"type": "string"}}},
    {"type": "object", "properties": {}},
    {"type": "object"},
    {},
    None,
    {"type": "string"},
    {"type": ["object", "null"], "properties": {"a": {}}},
    {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {}}]},
    {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"minLength": 1}, {"type": "null"}]}}},
    {"type": "object", "properties": {"a": {"enum": ["x", None]}}, "required": None, "additionalProperties": False},
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "integer"}},
    },
)
NAMES = ("f", "g", "get_weather", "mcp.server:tool", "n" * 70, "天气")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def make_functions(dice: Random) -> list[Json]:
    names = dice.sample(NAMES, dice.randrange(4))
    found = []
    for name in names:
        one = {"name": name, "description": dice.choice(("d", None, "")), "parameters": dice.choice(SCHEMAS)}
        found.append(one if dice.random() < 0.7 else {"name": name})
    return found


def pick(dice: Random, options: Json, chance: float = 0.15) -> Json:
    return {name: dice.choice(values) for name, values in options.items() if dice.random() < chance}


FORMAT_SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]}


def add_chat_options(dice: Random, body: Json) -> None:
    tools: list[Any] = [{"type": "function", "function": one} for one in make_functions(dice)]
    body |= {"tools": tools} if tools or dice.random() < 0.1 else {}
    if tools and dice.random() < 0.4:
        named = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
        body["tool_choice"] = dice.choice(("auto", "none", "required", named))
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": FORMAT_SCHEMA, "strict": True}}
    body |= pick(
        dice,
        {
            "temperature": (0, 0.7, 1, 2),
            "top_p": (0.5, 1),
            "max_tokens": (1, 50, 100_000, None),
            "max_completion_tokens": (7, 2000),
            "stop": ("x", ["a", "b"], [], [" "], None),
            "response_format": ({"type": "text"}, {"type": "json_object"}, schema),
            "reasoning_effort": EFFORTS,
            "parallel_tool_calls": (True, False),
            "stream_options": ({"include_usage": True}, None),
            "seed": (1,),
            "presence_penalty": (0.5,),
            "frequency_penalty": (0.5,),
            "logprobs": (False, None),
            "metadata": ({"a": "b"}, {}),
            "user": ("u",),
            "n": (1, None),
            "store": (False, True),
            "prompt_cache_key": ("k",),
            "top_k": (5,),
            "logit_bias": ({"5": 1},),
        },
    )


def add_messages_options(dice: Random, body: Json) -> None:
    body["max_tokens"] = dice.choice((1, 50, 2000, 100_000))
    tools: list[Json] = [
        {"name": one["name"], "input_schema": one.get("parameters") or {"type": "object"}}
        for one in make_functions(dice)
        if one["name"].isascii()
        and "." not in one["name"]
        and (one.get("parameters") or {}).get("type", "object") == "object"
    ]
    mark = {"cache_control": {"type": "ephemeral"}}
    if tools and dice.random() < 0.3:
        tools[-1] |= mark
    body |= {"tools": tools} if tools else {}
    if tools and dice.random() < 0.4:
        body["tool_choice"] = dice.choice(
            ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": tools[0]["name"]})
        )
    for message in body["messages"]:
        if message["role"] == "user" and message["content"] in ("", [{"type": "text", "text": ""}]):
            message["content"] = "wx"  # the server itself says that it is empty
        if isinstance(message["content"], list) and message["content"] and dice.random() < 0.3:
            message["content"][-1] |= mark if message["content"][-1]["type"] != "thinking" else {}
    body |= pick(
        dice,
        {
            "temperature": (0, 0.5, 1),
            "top_p": (0.5,),
            "top_k": (5,),
            "stop_sequences": (["x"], []),
            "thinking": ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"}),
            "metadata": ({"user_id": "u"},),
            "system": ("wsysx", [{"type": "text", "text": "wsysx", **mark}]),
        },
        0.25,
    )
    if "budget_tokens" in body.get("thinking", {}) and body["max_tokens"] <= 1024:
        body["max_tokens"] = 2000


def add_responses_options(dice: Random, body: Json) -> None:
    tools = [{"type": "function", "strict": dice.choice((True, False, None)), **one} for one in make_functions(dice)]
    tools = [one for one in tools if (one.get("parameters") or {}).get("type", "object") == "object"]
    body |= {"tools": tools} if tools or dice.random() < 0.1 else {}
    if tools and dice.random() < 0.4:
        body["tool_choice"] = dice.choice(("auto", "none", "required", {"type": "function", "name": tools[0]["name"]}))
    body |= pick(
        dice,
        {
            "temperature": (0, 1.5),
            "top_p": (0.5,),
            "max_output_tokens": (1, 50, 100_000, None),
            "reasoning": ({"effort": "high"}, {"effort": "minimal", "summary": "auto"}, {}, None),
            "parallel_tool_calls": (True, False),
            "store": (False, True),
            "metadata": ({"a": "b"},),
            "text": (
                {"format": {"type": "text"}},
                {"format": {"type": "json_schema", "name": "x", "schema": FORMAT_SCHEMA}},
            ),
            "instructions": ("wsysx", ""),
            "prompt_cache_key": ("k",),
            "truncation": ("auto", "disabled"),
        },
        0.2,
    )


def add_gemini_options(dice: Random, body: Json) -> None:
    declared = [one for one in make_functions(dice) if one["name"].isascii()]
    for content in body["contents"]:  # of an empty text the server itself says what it thinks
        content["parts"] = [part if part.get("text") != "" else {**part, "text": "x"} for part in content["parts"]]
    body |= {"tools": [{"functionDeclarations": declared}]} if declared else {}
    options = pick(
        dice,
        {
            "temperature": (0, 1.5),
            "topP": (0.5,),
            "topK": (5,),
            "maxOutputTokens": (1, 50, 100_000),
            "stopSequences": (["x"], list("abcdefg"), []),
            "seed": (1,),
            "thinkingConfig": ({"thinkingBudget": 100}, {"thinkingLevel": "HIGH"}, {"thinkingBudget": 0}),
            "responseMimeType": ("application/json", "text/plain"),
        },
        0.2,
    )
    body |= {"generationConfig": options} if options else {}
    body |= pick(dice, {"systemInstruction": ({"parts": [{"text": "wsysx"}]}, {"parts": []})}, 0.3)


ADDERS = {
    "openai": add_chat_options,
    "anthropic": add_messages_options,
    "responses": add_responses_options,
    "gemini": add_gemini_options,
}
FIELDS = {"responses": "input", "gemini": "contents"}


def make_body(form: str, dice: Random) -> tuple[str, Json, list[str]]:
    """Return the path, the body and its words."""
    acts = mark_words(script(dice))
    entries = WRITERS[form](acts, dice)
    body: Json = {FIELDS.get(form, "messages"): entries}
    if form in ADDERS:
        ADDERS[form](dice, body)
    else:
        body |= {"format": form, "stream": False}
        functions = make_functions(dice)
        body |= {"functions": functions} if functions else {}
    text = json.dumps(body)  # a writer may have no place for a text
    words = [word for word in [*list_words(acts), "wsysx"] if f'"{word}"' in text]
    return PATHS.get(form, "/v1/chat"), body, words


def describe(*values: Any) -> str:
    return "\n".join(json.dumps(one, ensure_ascii=False, default=str)[:6000] for one in values)
