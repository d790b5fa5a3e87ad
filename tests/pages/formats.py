"""The pages of docs/reference/formats: their prose, with results of the gateway in the places that `{{…}}` names."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from app.api.convert import Conversion, convert_conversation
from app.chat.events import Event, Extra, Failed, Fault, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest
from app.errors import InvalidInput, Violation
from app.formats import FORMATS
from app.formats.base import Options, ReplyInfo, ReplyMode
from app.formats.detect import detect
from app.profiles import Profile
from app.upstream.chat_completions import request as upstream_request

from tests.conversations.features import FEATURES, verdict
from tests.conversations.sample_conversations import golden, read
from tests.formats.autogen.sample_documents import ACCEPTED, REFUSED
from tests.formats.qwen.documents import EXAMPLES, PYTHON, Example
from tests.pages.json_layout import shown

PROSE = Path(__file__).parent / "format_pages"
GOLDENS = Path(__file__).parents[1] / "goldens"
EXAMPLE = "weather"
TITLES = {
    "qwen": "`qwen`",
    "openai": "`openai`",
    "autogen": "`autogen`",
    "agentscope": "`agentscope` (1.x)",
    "agentscope2": "`agentscope2` (2.x)",
    "responses": "`responses`",
    "anthropic": "`anthropic`",
    "gemini": "`gemini`",
}
CELLS = {
    "field": "yes",
    "notes": "notes",
    "notes, warned": "text + notes",
    "lost, warned": "lost",
    "refused, warned": "refused",
}
SIGNS: list[tuple[str, str, list[Any]]] = [
    (
        "responses",
        "`type` is `message`, `reasoning`, `function_call`, `function_call_output`, …",
        [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}],
    ),
    (
        "responses",
        "a part of type `input_text`, `output_text`, `input_image` or `input_file`",
        [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    ),
    (
        "autogen",
        "`type` is one of AutoGen's classes, with a `source`",
        [{"type": "TextMessage", "source": "user", "content": "Hi"}],
    ),
    ("autogen", "`type` is `SystemMessage`", [{"type": "SystemMessage", "content": "Be kind"}]),
    (
        "agentscope2",
        "a block of type `tool_call`, `data` or `hint`",
        [{"name": "a", "role": "assistant", "content": [{"type": "hint", "hint": "x"}]}],
    ),
    (
        "agentscope2",
        "`created_at` with `finished_at`, or `structured_output`",
        [{"name": "u", "role": "user", "content": [], "created_at": "", "finished_at": None}],
    ),
    (
        "anthropic",
        "a block with `tool_use_id` or `signature`, or of type `document`, `search_result`, `redacted_thinking`",
        [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}],
    ),
    (
        "anthropic",
        "a block of type `tool_use`, `thinking`, or with a `source`, in a message without `name`",
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}],
    ),
    (
        "agentscope",
        "a block of type `tool_use`, `thinking` or `tool_result`, or with a `source`",
        [{"name": "a", "role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}],
    ),
    (
        "agentscope",
        "`timestamp`",
        [{"name": "u", "role": "user", "content": "Hi", "timestamp": "2026-01-05 09:30:00.000"}],
    ),
    ("openai", "`tool_calls`, `tool_call_id`, role `tool` or `developer`", [{"role": "tool", "tool_call_id": "1"}]),
    (
        "openai",
        "a part of type `image_url`, `input_audio`, `file`, `video_url` or `refusal`",
        [{"role": "user", "content": [{"type": "image_url"}]}],
    ),
    ("gemini", "`parts`", [{"role": "user", "parts": [{"text": "Hi"}]}]),
    ("qwen", "`function_call`, `reasoning_content` or role `function`", [{"role": "function", "content": "x"}]),
    ("qwen", "an item with a key `text`, `image`, … and no `type`", [{"role": "user", "content": [{"image": "x"}]}]),
]
USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
REPLY: list[Event] = [
    ReasoningDelta("Paris?"),
    TextDelta("I "),
    TextDelta("look."),
    ToolCallDelta(0, "", "call_1", "get_weather"),
    ToolCallDelta(0, '{"city": "Paris"}'),
    Finish("tool_calls", USAGE),
]
SOUND, IMAGE = "data:audio/wav;base64,UklGRgAAAABXQVZF", "data:image/png;base64,iVBORw0KGgo="
OUTPUTS: dict[str, tuple[list[Event], str, str]] = {
    "audio": ([MediaOutput("audio", SOUND)], "UklGRgAAAABXQVZF", r"parley|\"extra\"|\"media\":"),
    "an image": ([MediaOutput("image", IMAGE)], "iVBORw0KGgo=", r"parley|\"extra\"|\"media\":"),
    "a refusal": ([TextDelta("I cannot.", refusal=True)], "I cannot.", "$^"),
    "citations (`annotations`)": (
        [TextDelta("Hi"), Extra({"annotations": [{"type": "url_citation"}]})],
        "url_citation",
        r"parley|\"extra\"",
    ),
    "a signature (`extra_content`)": (
        [TextDelta("Hi"), Extra({"extra_content": {"s": "AbC="}})],
        "AbC=",
        r"parley|\"extra\"",
    ),
    "warnings of the reply": ([TextDelta("Hi")], "beware", "$^"),
}
"""By name: the events, the text that shows that a format has it, and a pattern of where it stands as a note."""
FAULT = Failed(Fault("overloaded", "the model is busy", transient=True, status=503))
WRONG = InvalidInput([Violation("messages[0].content", "is required")])


def info(**options: Any) -> ReplyInfo:
    return ReplyInfo("chat-1", "req-1", "qwen3", 1767605400, options=Options(**options))


def encode_reply(form: str, mode: ReplyMode, events: Iterable[Event] = REPLY, **options: Any) -> str:
    encoder = FORMATS[form].reply_encoder(info(**options), mode)
    return (encoder.open() + b"".join(encoder.feed([event]) for event in events)).decode()


def documents() -> dict[str, str]:
    """Every page by its file name."""
    return {path.name: _fill(path.read_text("utf-8")) for path in sorted(PROSE.glob("*.md"))}


def _fill(prose: str) -> str:
    return re.sub(r"\{\{(\w+)(?::(\w+))?\}\}", _part, prose)


def _part(place: re.Match[str]) -> str:
    return FORMAT_PARTS[place[1]](place[2]) if place[2] else PARTS[place[1]]()


def conversation(form: str) -> str:
    return _code("json", shown(golden(EXAMPLE, form)))


def sent() -> str:
    messages = read("qwen", golden(EXAMPLE, "qwen"))
    body, _ = upstream_request.build(ChatRequest("m", messages), "m", Profile())
    return _code("json", shown(body["messages"]))


def kept() -> str:
    rows = [[feature.name, *(CELLS[verdict(feature, form)] for form in TITLES)] for feature in FEATURES]
    return _table(["", *TITLES.values()], rows)


def translation() -> str:
    """A request to `POST /v1/convert` and its answer."""
    asked = {"from": "openai", "to": "agentscope", "messages": golden("file", "openai")[:1]}
    answer = convert_conversation(Conversion.model_validate(asked))
    return "\n\n".join([_code("json", shown(asked)), "is answered with", _code("json", shown(answer))])


def signs() -> str:
    rows = []
    for form, sign, messages in SIGNS:
        assert detect(messages) == (form, []), sign
        rows.append([sign, f"`{form}`"])
    return _table(["Sign", "Format"], rows)


def whole(form: str) -> str:
    return _code("json", shown(json.loads(encode_reply(form, "whole"))))


def streamed(form: str) -> str:
    return _code("text", _lines(encode_reply(form, "delta")))


def autogen_stream(mode: str) -> str:
    return _code("text", encode_reply("autogen", "delta", autogen_stream=mode).strip())


def refused(form: str) -> str:
    return _code("json", shown(FORMATS[form].error(WRONG.to_dict("req-1"))))


def failed(form: str) -> str:
    """The last frames of a stream that fails after its first text."""
    begun = encode_reply(form, "delta", [TextDelta("I ")])
    return _code("text", _lines(encode_reply(form, "delta", [TextDelta("I "), FAULT]).removeprefix(begun)))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def outputs() -> str:
    """Where each format has what is neither text nor call."""
    rows = []
    for name, (events, sign, note) in OUTPUTS.items():
        ending = Finish("stop", warnings=("beware",) if sign == "beware" else ())
        shown = [encode_reply(form, "whole", [*events, ending]) for form in TITLES]
        shown.append(encode_reply("autogen", "whole", [*events, ending], autogen_stream="model"))
        rows.append([name, *(_place(text, sign, note) for text in shown)])
    return _table(["", *TITLES.values(), "`model`"], rows)


def _place(text: str, sign: str, note: str) -> str:
    if sign not in text:
        return "lost"
    return "notes" if re.search(note, text) else "field"


def autogen_versions() -> str:
    """Which keys each version writes, from what the packages dumped."""
    dumped = json.loads((GOLDENS / "autogen" / "classes.json").read_text("utf-8"))
    versions = [name for name in dumped if name.startswith("version_")]
    known = [{one["type"].partition("[")[0]: set(one) for one in dumped[name]} for name in versions]
    shared = [set.intersection(*types.values()) for types in known]
    rows = [["every message", *(_new(shared, at) for at in range(len(versions)))]]
    for type_ in known[-1]:
        own = [types.get(type_, set()) - common for types, common in zip(known, shared, strict=True)]
        if any(own[at] != own[0] for at in range(len(own))):
            rows.append([f"`{type_}`", *(_new(own, at) for at in range(len(own)))])
    return _table(["", *(name.removeprefix("version_") for name in versions)], rows)


def _new(keys: list[set[str]], at: int) -> str:
    """What a version writes, or adds."""
    if at == 0:
        return ", ".join(f"`{key}`" for key in sorted(keys[0])) or "(has no such class)"
    added = sorted(keys[at] - keys[at - 1])
    return "adds " + ", ".join(f"`{key}`" for key in added) if added else "the same"


def autogen_documents() -> str:
    rows = [[f"`{change}`", "taken", why] for change, why in ACCEPTED.items()]
    rows += [[f"`{change}`", "refused", why] for change, why in REFUSED.items()]
    return _table(["Change (a pattern)", "The gateway", "Why"], rows)


def qwen_examples() -> str:
    rows = [[one.document, one.name, _verdict(one), one.why] for one in EXAMPLES]
    return _table(["Document", "Example", "The gateway", "Why not as the document says"], rows)


def qwen_python() -> str:
    return _table(["Example", "Here"], [list(row) for row in PYTHON.items()])


def _verdict(example: Example) -> str:
    return "taken" if example.refused_at is None else f"refused at `{example.refused_at}`"


PARTS: dict[str, Callable[[], str]] = {
    one.__name__: one
    for one in (
        translation,
        sent,
        kept,
        signs,
        outputs,
        autogen_versions,
        autogen_documents,
        qwen_examples,
        qwen_python,
    )
}
"""What `{{name}}` is replaced with."""
FORMAT_PARTS: dict[str, Callable[[str], str]] = {
    one.__name__: one for one in (conversation, whole, streamed, autogen_stream, refused, failed)
}
"""What `{{name:format}}` is replaced with."""


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    for name, page in documents().items():
        Path(sys.argv[1], name).write_text(page, "utf-8")
