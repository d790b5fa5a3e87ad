"""The body of an OpenAI chat completion request, and what its prompt asks for in words.

Some clients send no `tools` or schema but write them into the prompt: the nous prompt of Qwen-Agent (functions in
`<tools>`), the JSON modes of instructor (a JSON schema in a message), the adapters of dspy (a list of fields).
"""

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_DEMAND = re.compile(r"You must call (?:the function (.+?)|at least one of the functions) in this reply")
_CALLED_NAME = re.compile(r'<tool_call>\n\{"name": "(.+?)"')
_RESULT = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
_FIELDS_WANTED = re.compile(
    r"Respond with (?:the corresponding output fields|a JSON object)[^`]* fields?[^`]*(`.*)", re.S
)
_FIELD = re.compile(r"`(?:\[\[ ## )?(\w+)(?: ## \]\])?`(?: \(must be formatted as a valid Python (.+?)\)(?=[,.]))?")
_PYTHON_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}
_BRACE = re.compile("{")
_REMINDER = re.compile(r"<system-reminder>[^<]*(?:<(?!/?system-reminder>)[^<]*)*</system-reminder>")
"""It ends at the next tag of its kind, so that many tags without an end take no longer than one."""
_MAX_SCHEMA_SEARCHES = 50


class BodyObject(BaseModel):
    """One JSON object of the body. Null counts as absent, and unknown keys are ignored."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, value: Any) -> Any:
        return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value


class DemoFunction(BodyObject):
    name: str = Field(min_length=1)
    parameters: dict[str, Any] = {}


class DemoTool(BodyObject):
    """A function that is offered or demanded, or the call of one."""

    id: str = ""
    function: DemoFunction


class DemoPart(BodyObject):
    model_config = ConfigDict(extra="allow")

    type: str
    text: str = ""

    @property
    def media_type(self) -> str:
        """That of a data URL, such as `image/png`, or else `image/*`."""
        value = (self.model_extra or {}).get(self.type)
        named = re.match(r"data:([^;,]{1,80})", str(value.get("url")) if isinstance(value, dict) else "")
        return named[1] if named else self.type.removeprefix("input_").removesuffix("_url") + "/*"


class DemoMessage(BodyObject):
    role: str
    content: str | list[DemoPart] = ""
    tool_calls: list[DemoTool] = []
    tool_call_id: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """The text without what agents such as Claude Code add to it for the model (`<system-reminder>`)."""
        text = self.full_text
        return _REMINDER.sub("", text).strip() if "<system-reminder>" in text else text

    @property
    def full_text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if part.type == "text")

    @property
    def is_result(self) -> bool:
        """Whether it is a tool's result, also one that an agent writes as the user's text (smolagents, ReAct)."""
        return self.role in ("tool", "function") or (self.role == "user" and self.text.startswith("Observation:"))

    @property
    def is_reminder(self) -> bool:
        """Whether it has nothing but what an agent adds, as AgentScope's last message (2.0)."""
        return self.role == "user" and bool(self.full_text) and not (self.text or self.media_types)

    @property
    def media_types(self) -> list[str]:
        parts = [] if isinstance(self.content, str) else self.content
        return [part.media_type for part in parts if part.type != "text"]


class ResponseFormat(BodyObject):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: dict[str, Any] = {}


class DemoRequest(BodyObject):
    model: str = Field(min_length=1)
    messages: list[DemoMessage] = Field(min_length=1)
    tools: list[DemoTool] = []
    tool_choice: Literal["auto", "none", "required"] | DemoTool = "auto"
    parallel_tool_calls: bool = True
    response_format: ResponseFormat = ResponseFormat()
    stop: str | list[str] = []
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    enable_thinking: bool = True
    chat_template_kwargs: dict[str, Any] = {}
    stream: bool = False
    stream_options: dict[str, Any] = {}

    @property
    def functions(self) -> list[DemoFunction]:
        return [tool.function for tool in self.tools]


class AnswerFormat(Struct, frozen=True):
    kind: Literal["text", "json", "json_block", "sections"] = "text"
    """`json_block`: JSON in a Markdown code block. `sections`: one `[[ ## name ## ]]` heading for each property."""
    schema: Mapping[str, Any] | None = None


class Question(Struct, frozen=True):
    """A request together with what its prompts ask for in words."""

    body: DemoRequest
    fingerprint: str
    """Equal for requests that get the same reply."""
    writes_calls: bool
    """The functions are in the prompt, and calls are written as text."""
    answer_format: AnswerFormat
    prompt_tokens: int


def read_question(body: DemoRequest) -> Question:
    tokens = sum(len(message.full_text) // 4 + 4 for message in body.messages)
    hashed = body.model_dump_json(exclude={"stream", "stream_options"})  # a streamed and a whole reply are equal
    said = [message for message in body.messages if not message.is_reminder]
    body = body.model_copy(update={"messages": said}) if said else body
    prompted = None if body.tools else _read_prompted_tools(body)
    asked = prompted or body
    fingerprint = hashlib.sha256(hashed.encode()).hexdigest()
    return Question(asked, fingerprint, prompted is not None, _read_answer_format(asked), tokens)


def _read_prompted_tools(body: DemoRequest) -> DemoRequest | None:
    """The request as it would be with `tools`; None where the prompt explains no functions."""
    systems = (message.text for message in body.messages if message.role == "system")
    prompt = next(filter(None, map(_TOOLS.search, systems)), None)
    if prompt is None:
        return None
    tools: list[DemoTool] = []
    for line in prompt[1].splitlines():
        with contextlib.suppress(ValidationError):
            tools.append(DemoTool.model_validate_json(line))
    demand = _DEMAND.search(prompt.string, prompt.end())
    named = [tool for tool in tools if demand and tool.function.name == demand[1]]
    choice = named[0] if named else "required" if demand else "auto"
    messages = list(_read_prompted_results(body.messages))
    return body.model_copy(update={"tools": tools, "tool_choice": choice, "messages": messages})


def _read_prompted_results(messages: Sequence[DemoMessage]) -> Iterator[DemoMessage]:
    """Makes messages of the results in the text; they answer the calls before them in order."""
    names: list[str] = []
    for message in messages:
        names = _CALLED_NAME.findall(message.text) if message.role == "assistant" else names
        results = _RESULT.findall(message.text) if message.role == "user" else []
        for text, name in zip(results, itertools.chain(names, itertools.repeat("")), strict=False):
            yield DemoMessage(role="function", content=text, name=name)
        if not results:
            yield message


def _read_answer_format(body: DemoRequest) -> AnswerFormat:
    kind: Literal["text", "json"] = "text" if body.response_format.type == "text" else "json"
    schema = body.response_format.json_schema.get("schema")
    if isinstance(schema, dict) or body.tools:
        return AnswerFormat(kind, schema if isinstance(schema, dict) else None)
    texts = [message.text for message in body.messages if message.role in ("system", "developer", "user")]
    if wanted := _FIELDS_WANTED.search(texts[-1] if texts else ""):
        return AnswerFormat("sections" if "[[ ## " in wanted[1] else "json", _read_field_list(wanted[1]))
    schema = next(filter(None, map(_find_schema, reversed(texts))), None)
    in_block = kind == "text" and any("```json" in text for text in texts)
    return AnswerFormat("json_block" if in_block else "json", schema) if schema else AnswerFormat(kind)


def _read_field_list(text: str) -> dict[str, Any]:
    """The schema of the fields that a prompt of dspy lists, each with a Python type unless it is a string."""
    properties = {name: _read_python_type(kind) for name, kind in _FIELD.findall(text) if name != "completed"}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _read_python_type(kind: str) -> dict[str, Any]:
    if kind.startswith("Literal["):
        return {"enum": re.findall(r"['\"](.+?)['\"]", kind)}
    if kind.startswith("list["):
        return {"type": "array", "items": _read_python_type(kind[5:-1])}
    return {"type": _PYTHON_TYPES.get(kind, "string")}


def strip_field_list(text: str) -> str:
    """The text without the list of fields that dspy puts at its end."""
    wanted = _FIELDS_WANTED.search(text)
    return text[: wanted.start()] if wanted else text


def _find_schema(text: str) -> dict[str, Any] | None:
    """The first JSON schema of an object or a list that follows the word "schema"."""
    named = re.search("schema", text, re.IGNORECASE)
    braces = _BRACE.finditer(text, named.end()) if named else iter(())
    for brace in itertools.islice(braces, _MAX_SCHEMA_SEARCHES):
        with contextlib.suppress(ValueError, RecursionError):
            value, _ = json.JSONDecoder().raw_decode(text, brace.start())
            if isinstance(value.get("properties", value.get("items")), dict):
                return dict(value)
    return None
