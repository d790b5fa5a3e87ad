"""Requests like those of coding agents: the whole conversation each time, with many rounds and functions.

The texts are made up from a seed, so that two programs get the same bytes. 100 rounds and 60 functions are half a
megabyte.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

TEXT = (
    "the file function returns value path error test module import config when then server request list of line with "
    "from and class parse stream cache write read"
)
WORDS = TEXT.split()
KEPT_MARKS = 2
"""How many of the last results have a mark of Anthropic's prompt cache: clients move them along."""


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Round:
    """What the model thought, said and called, and the result."""

    thought: str
    text: str
    call_id: str
    name: str
    arguments: dict[str, Any]
    result: str


@dataclass(frozen=True, slots=True)
class Conversation:
    system: tuple[str, ...]
    question: str
    functions: tuple[Function, ...]
    rounds: tuple[Round, ...]

    def until(self, rounds: int) -> "Conversation":
        """The conversation after so many rounds."""
        return replace(self, rounds=self.rounds[:rounds])


def make_conversation(rounds: int, functions: int, seed: int = 0) -> Conversation:
    """Another seed makes another conversation: nothing of two is alike but the words."""
    chance = random.Random(seed)

    def words(count: int) -> str:
        return " ".join(chance.choices(WORDS, k=count))

    made = tuple(
        Function(f"mcp__server{i % 6}__tool_{i}", words(120), _parameters(chance, words)) for i in range(functions)
    )
    names = [function.name for function in made] or ["read_file"]
    return Conversation(
        (words(1500), words(400)),
        words(80),
        made,
        tuple(_make_round(chance, words, number, seed, chance.choice(names)) for number in range(rounds)),
    )


def _parameters(chance: random.Random, words: Callable[[int], str]) -> dict[str, Any]:
    kinds: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"type": "string", "description": words(14)},
        lambda: {"type": "integer", "minimum": 0, "description": words(9)},
        lambda: {"type": "array", "items": {"type": "string"}, "description": words(8)},
        lambda: {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": words(6)},
                "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "additionalProperties": False,
        },
        lambda: {"type": "string", "enum": ["read", "write", "list"], "description": words(7)},
    )
    properties = {
        f"{chance.choice(WORDS)}_{number}": chance.choice(kinds)() for number in range(chance.randrange(3, 8))
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:2],
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    }


def _make_round(chance: random.Random, words: Callable[[int], str], number: int, seed: int, name: str) -> Round:
    return Round(
        words(60),
        words(25),
        f"call_{seed:08x}{number:016x}",
        name,
        {
            "file_path": f"/src/app/{chance.choice(WORDS)}_{number}.py",
            "offset": number,
            "limit": 200,
            "pattern": words(5),
        },
        "\n".join(_line(chance, words, line) for line in range(chance.choice([5, 20, 40, 60]))),
    )


def _line(chance: random.Random, words: Callable[[int], str], number: int) -> str:
    first, second = chance.choices(WORDS, k=2)
    indent = " " * chance.randrange(0, 12)
    return f'    {number:5d}\t{indent}def {first}_{number}({second}: str): return "{words(3)}"  # {words(4)}'


def write_messages(conversation: Conversation, model: str, *, stream: bool = False) -> bytes:
    """The body for `POST /v1/messages`, as Claude Code writes it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": conversation.question}]}]
    last = len(conversation.rounds) - KEPT_MARKS
    for number, each in enumerate(conversation.rounds):
        called = {"type": "tool_use", "id": each.call_id, "name": each.name, "input": each.arguments}
        thought = {"type": "thinking", "thinking": each.thought, "signature": "c2ln" * 20}
        messages.append({"role": "assistant", "content": [thought, {"type": "text", "text": each.text}, called]})
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": each.call_id, "content": each.result}
        if number >= last:
            result["cache_control"] = {"type": "ephemeral"}
        messages.append({"role": "user", "content": [result]})
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}} for text in conversation.system]
    tools = [
        {"name": each.name, "description": each.description, "input_schema": each.parameters}
        for each in conversation.functions
    ]
    return _encode(
        {
            "model": model,
            "max_tokens": 32000,
            "stream": stream,
            "system": system,
            "messages": messages,
            "metadata": {"user_id": "user_x_account__session_y"},
            "thinking": {"type": "enabled", "budget_tokens": 16000},
        },
        tools=tools,
    )


def write_responses(conversation: Conversation, model: str, *, stream: bool = False) -> bytes:
    """The body for `POST /v1/responses`, as Codex writes it."""
    question = [{"type": "input_text", "text": conversation.question}]
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": question}]
    for each in conversation.rounds:
        summary = [{"type": "summary_text", "text": each.thought}]
        said = [{"type": "output_text", "text": each.text}]
        items += [
            {"type": "reasoning", "id": f"rs_{each.call_id}", "summary": summary},
            {"type": "message", "role": "assistant", "content": said},
            {"type": "function_call", "call_id": each.call_id, "name": each.name, "arguments": _text(each.arguments)},
            {"type": "function_call_output", "call_id": each.call_id, "output": each.result},
        ]
    tools = [{"type": "function", **_function(each), "strict": False} for each in conversation.functions]
    fields = {
        "store": False,
        "instructions": " ".join(conversation.system),
        "input": items,
        "parallel_tool_calls": True,
    }
    return _encode({"model": model, "stream": stream, **fields}, tools=tools)


def write_completions(conversation: Conversation, model: str, *, stream: bool = False) -> bytes:
    """The body for `POST /v1/chat/completions`."""
    messages = _first_messages(conversation)
    for each in conversation.rounds:
        called = {"name": each.name, "arguments": _text(each.arguments)}
        calls = [{"id": each.call_id, "type": "function", "function": called}]
        said = {"role": "assistant", "content": each.text, "reasoning_content": each.thought, "tool_calls": calls}
        messages += [said, {"role": "tool", "tool_call_id": each.call_id, "content": each.result}]
    tools = [{"type": "function", "function": _function(each)} for each in conversation.functions]
    return _encode({"model": model, "stream": stream, "messages": messages}, tools=tools)


def write_chat(conversation: Conversation, model: str, *, stream: bool = False) -> bytes:
    """The body for `POST /v1/chat`, in Qwen-Agent's form."""
    messages = _first_messages(conversation)
    for each in conversation.rounds:
        called = {"name": each.name, "arguments": _text(each.arguments)}
        extra = {"function_id": each.call_id}
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": each.thought},
            {"role": "assistant", "content": each.text},
            {"role": "assistant", "content": "", "function_call": called, "extra": extra},
            {"role": "function", "name": each.name, "content": each.result, "extra": extra},
        ]
    functions = [_function(each) for each in conversation.functions]
    return _encode({"model": model, "stream": stream, "messages": messages}, functions=functions)


def write_gemini(conversation: Conversation, model: str, *, stream: bool = False) -> bytes:
    """The body for Google's API, as gemini-cli writes it: the model and whether it streams are in the path."""
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": conversation.question}]}]
    for each in conversation.rounds:
        call = {"functionCall": {"id": each.call_id, "name": each.name, "args": each.arguments}}
        thought = {"text": each.thought, "thought": True}
        contents.append(
            {"role": "model", "parts": [thought, {"text": each.text}, {**call, "thoughtSignature": "c2ln" * 20}]}
        )
        result = {"id": each.call_id, "name": each.name, "response": {"output": each.result}}
        contents.append({"role": "user", "parts": [{"functionResponse": result}]})
    declared = [
        {"name": each.name, "description": each.description, "parametersJsonSchema": each.parameters}
        for each in conversation.functions
    ]
    fields = {
        "contents": contents,
        "systemInstruction": {"role": "user", "parts": [{"text": text} for text in conversation.system]},
        "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64, "thinkingConfig": {"includeThoughts": True}},
    }
    return _encode(fields, tools=[{"functionDeclarations": declared}] if declared else [])


GEMINI = "/v1beta/models"
"""The path that all of Google's paths begin with."""
WRITERS: dict[str, Callable[..., bytes]] = {
    "/v1/chat": write_chat,
    "/v1/chat/completions": write_completions,
    "/v1/messages": write_messages,
    "/v1/responses": write_responses,
    GEMINI: write_gemini,
}
"""What writes the body, by the path that it is for (`find_path`)."""


def find_path(path: str, model: str, *, stream: bool = False) -> str:
    """Return where a body is sent: Google's paths name the model, and whether the reply is a stream."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"{path}/{model}:{method}" if path == GEMINI else path


def _first_messages(conversation: Conversation) -> list[dict[str, Any]]:
    system = {"role": "system", "content": " ".join(conversation.system)}
    return [system, {"role": "user", "content": conversation.question}]


def _function(function: Function) -> dict[str, Any]:
    return {"name": function.name, "description": function.description, "parameters": function.parameters}


def _text(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)


def _encode(body: dict[str, Any], **functions: Sequence[dict[str, Any]]) -> bytes:
    """`functions` are left out where there are none: some servers refuse an empty list."""
    given = {name: rows for name, rows in functions.items() if rows}
    return json.dumps(body | given, ensure_ascii=False, separators=(",", ":")).encode()
