"""What a Responses server's items hold: texts, reasoning, opaque fields; and what is known of one while it streams."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from app.chat.events import MediaOutput
from app.profiles import Profile
from app.upstream.reply.partial_tool_call import clean_name, get_meaning

FORMAT = "openai-responses-v1"
"""The `format` of opaque reasoning, in OpenRouter's shape (openrouter.ai/docs/use-cases/reasoning-tokens)."""
ENCRYPTED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
"""What `include` asks for, so that reasoning can come back to a server that stores nothing."""
VENDOR_ITEMS = frozenset(
    ("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "computer_call")
    + ("computer_call_output", "program", "program_output", "compaction", "compaction_summary", "context_compaction")
    + ("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "agent_message", "shell_call")
    + ("shell_call_output", "local_shell_call", "local_shell_call_output", "apply_patch_call", "item_reference")
    + ("apply_patch_call_output", "configuration_update", "compaction_trigger")
)
"""Items that only OpenAI's servers know, or that its clients run."""
_INPUT_ID = re.compile(r"[a-z]+_[0-9a-f]{32}_i[0-9]+")
"""The id that the gateway gives an item of a request that it remembers, so that clients can refer to it."""
CALLS = frozenset(("function_call", "custom_tool_call"))
_OUTPUT_ONLY = ("status",)
"""The fields of an item of reasoning that no server wants back."""

PartKey: TypeAlias = tuple[str, int]
"""The kind of a text (`text`, `refusal`, `summary`, `content`) and its position among the parts."""


class Slot:
    """One item of a reply's output, while it streams."""

    __slots__ = (
        "ahead",
        "annotations",
        "call",
        "call_id",
        "caller",
        "done",
        "holds",
        "id",
        "index",
        "kind",
        "namespace",
        "phase",
        "texts",
        "thought",
        "emitted_fields",
        "first_id",
    )

    def __init__(self, kind: str, index: int | None, id: str) -> None:
        self.kind = kind
        self.index = index
        self.id = self.first_id = id
        """The last id that the server has given it, and the one by which it began."""
        self.call = -1
        """The position of a call among the calls of the reply."""
        self.call_id = ""
        """The id of a call as it began."""
        self.texts: dict[PartKey, list[str]] = {}
        """What came of each text."""
        self.ahead: dict[PartKey, str] = {}
        """What the end of a text had beyond its deltas, as far as these have not come behind it."""
        self.thought = ""
        """Which of its two texts a reasoning item has, `summary` or `content`: the first that came."""
        self.annotations: list[Any] = []
        self.phase: Any = None
        self.namespace: Any = None
        self.caller: Any = None
        self.emitted_fields: dict[str, Any] | None = None
        """The `extra_content` that was emitted last."""
        self.done = False
        self.holds = True
        """The arguments so far cannot begin an object, so that none of them were passed on: some servers send others in
        deltas than at the end (encrypted ones)."""

    def get_text(self, key: PartKey) -> str:
        texts = self.texts.get(key)
        if not texts:
            return ""
        if len(texts) > 1:
            texts[:] = ["".join(texts)]
        return texts[0]

    def get_all(self) -> str:
        return "".join(map(self.get_text, self.texts))

    def read_fields(self, item: Mapping[str, Any]) -> None:
        """Read the opaque fields of an item, each of which may come at its beginning or at its end."""
        self.phase = item.get("phase") or self.phase
        self.namespace = item.get("namespace") or self.namespace
        self.caller = item.get("caller") or self.caller

    def make_extra_content(self) -> dict[str, Any] | None:
        """Return the `extra_content` of the item's message or call; None if it has no opaque fields."""
        fields: dict[str, Any] = {}
        if self.kind == "custom_tool_call":
            fields["custom"] = True
        for name, value in (("phase", self.phase), ("namespace", self.namespace), ("caller", self.caller)):
            if value is not None:
                fields[name] = value
        return {"openai": fields} if fields else None


def get_text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def strip_input_id(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item as it came, without the id that the gateway has given it since."""
    id_ = item.get("id")
    if not isinstance(id_, str) or _INPUT_ID.fullmatch(id_) is None:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def complete_thought(item: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    """Return an item of reasoning with an id and a summary, and without what OpenAI refuses: a status, which other
    servers write (1jehuang/jcode#1028), and a text beside what is encrypted (jlcodes99/cockpit-tools#2012)."""
    refused = _OUTPUT_ONLY if profile.replay_reasoning == "item_text" else (*_OUTPUT_ONLY, "content")
    if not item.keys().isdisjoint(refused):
        item = {name: value for name, value in item.items() if name not in refused}
    return add_id(item)


def add_id(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item of reasoning with an id and a summary, which strict servers demand (zai-org/feedback#682)."""
    if "id" in item and item.get("summary") is not None:
        return item
    made = "rs_" + hashlib.sha256(msgspec.json.encode(item)).hexdigest()[:32]
    return {"id": made, **item, "summary": item.get("summary") or []}


def lacks_fields(item: Mapping[str, Any]) -> bool:
    """Whether an item that begins or ends lacks what clients read of it."""
    kind = get_text(item, "type")
    if kind not in CALLS:
        return not kind or (kind in ("message", "reasoning") and not get_text(item, "id"))
    text = item.get("input" if kind == "custom_tool_call" else "arguments")
    name = get_text(item, "name")
    has_names = get_text(item, "id") and get_text(item, "call_id") and name and clean_name(name) == name
    return not has_names or not isinstance(text, str)


def iter_message_texts(item: Mapping[str, Any]) -> Iterator[tuple[PartKey, str]]:
    """Yield the texts of a `message` item."""
    content = item.get("content")
    if isinstance(content, str):
        yield ("text", 0), content
        return
    for place, part in enumerate(content if isinstance(content, list) else ()):
        if isinstance(part, dict):
            kind = "refusal" if part.get("type") == "refusal" else "text"
            if text := get_text(part, kind):
                yield (kind, place), text


def iter_annotations(item: Mapping[str, Any]) -> Iterator[Any]:
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        annotations = part.get("annotations") if isinstance(part, dict) else None
        yield from annotations if isinstance(annotations, list) else ()


def iter_thoughts(item: Mapping[str, Any], kind: str) -> Iterator[tuple[PartKey, str]]:
    """Yield the texts of a `reasoning` item under `kind`: `summary` or `content`."""
    parts = item.get(kind)
    for place, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and (text := get_text(part, "text")):
            yield (kind, place), text


def read_arguments(item: Mapping[str, Any], streamed: str = "") -> str:
    """Return the arguments of a call: those of a custom call as an object with its `input`. If its deltas were another
    text, they stand."""
    if item.get("type") == "custom_tool_call":
        given = get_text(item, "input")
        return json.dumps({"input": given if given.startswith(streamed) else streamed}, ensure_ascii=False)
    arguments = item.get("arguments")
    if isinstance(arguments, dict | list):
        return json.dumps(arguments, ensure_ascii=False)
    return get_text(item, "arguments")


def make_detail(item: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """Return the opaque part of a `reasoning` item with this text, as a detail; None if it has none.

    Ollama's `encrypted_content` is the text itself (ollama/ollama, openai/responses.go): that is no opaque part.
    """
    data = item.get("encrypted_content")
    if not isinstance(data, str) or not data or data == text:
        return None
    detail: dict[str, Any] = {"type": "reasoning.encrypted", "data": data}
    if isinstance(id_ := item.get("id"), str) and id_:
        detail["id"] = id_
    return detail | {"format": FORMAT}


def make_item_detail(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item that only the server understands as a detail."""
    return {"type": "provider.item", "item": dict(item), "format": FORMAT}


def read_picture(item: Mapping[str, Any]) -> MediaOutput | None:
    """Return the image of an `image_generation_call`; None if it has none."""
    result = item.get("result")
    if item.get("type") != "image_generation_call" or not isinstance(result, str) or not result:
        return None
    if result[:5].lower() == "data:" or result[:8].lower().startswith(("http://", "https://")):
        return MediaOutput("image", result)
    kind = item.get("output_format")
    return MediaOutput("image", f"data:image/{kind if kind in ('png', 'jpeg', 'webp') else 'png'};base64,{result}")


def differs(item: dict[str, Any], slot: Slot) -> bool:
    """Whether an item that ends has another text than its deltas were, or a call another id, by which clients know it
    (vllm-project/vllm#56285). Reasoning may have more; what is encrypted of it must go back in this item, whatever its
    text."""
    if slot.kind in CALLS and get_text(item, "call_id") != slot.call_id:
        return True
    if slot.kind == "message":
        return "".join(text for _, text in iter_message_texts(item)) != slot.get_all()
    if slot.kind == "reasoning":
        return not item.get("encrypted_content") and not "".join(
            text for _, text in iter_thoughts(item, slot.thought)
        ).startswith(slot.get_all())
    if slot.kind == "custom_tool_call":
        return not get_text(item, "input").startswith(slot.get_text(("input", 0)))
    return slot.kind == "function_call" and have_other_arguments(read_arguments(item), slot)


def have_other_arguments(arguments: str, slot: Slot) -> bool:
    """Whether the arguments at the end of a call are others than its deltas that were passed on."""
    known = "" if slot.holds else slot.get_text(("arguments", 0))
    return not arguments.startswith(known) and get_meaning(arguments) != get_meaning(known)


def find_slot(item: dict[str, Any], index: int, slots: list[Slot]) -> Slot | None:
    """Return the slot of an item of the end's `output`: by its id, else by its place, else, where the events had no
    `output_index`, the first of its type."""
    kind, id_ = get_text(item, "type") or "message", get_text(item, "id")
    same = [slot for slot in slots if slot.kind == kind]
    for slot in same:
        if id_ and slot.id == id_:
            return slot
    for slot in same:
        if slot.index == index:
            return slot
    return next((slot for slot in same if slot.index is None), None)


def find_free_index(known: dict[int, Slot], index: int) -> int:
    """Return the place of an item that no event had, if it is free; else one that no item has."""
    return index if index not in known else max(known) + 1
