"""Random conversations, as the vocabulary has them, and random JSON that looks like AgentScope's messages."""

from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
NAMES = st.sampled_from([None, "Friday", "user", "Alice", "assistant"])
TURNS = st.sampled_from([None, None, "t1", "t2"])
EXTRAS = st.sampled_from([{}, {}, {"k": [1, None]}, {"message_id": "m", "created_at": "then"}])
IMAGE = Media("image", ("data:image/png;base64,AAAA",))
MEDIA = st.sampled_from(
    [
        IMAGE,
        Media("image", ("https://h/a.mp4",)),
        Media("audio", ("https://h/a",)),
        Media("audio", ("AAAAAAAAAAAAAAAA",), format="mp3"),
        Media("audio", ("data:audio/wav;base64,AAAA",), format="wav"),
        Media("video", ("https://h/a.mp4",)),
        Media("video", ("https://h/1.png", "https://h/2.png"), frames=True),
        Media("file", ("https://h/a.pdf",)),
        Media("file", ("data:application/pdf;base64,AAAA",), name="a.pdf"),
        Media("file", ("data:image/png;base64,AAAA",)),
    ]
)
CONTENTS = st.lists(TEXTS.map(Text) | MEDIA, max_size=3).map(tuple)
ARGUMENTS = st.sampled_from(["{}", "", '{"a":  1}', '{"a": true}', '{"a', "[1]", '{"a": 1e3}', "nonsense"])


def _message(role: Any, parts: Any, **fields: Any) -> st.SearchStrategy[Message]:
    fields = {"name": NAMES, "turn": st.none(), "extra": EXTRAS, **fields}
    return st.builds(Message, st.just(role), parts, **fields)


CALLS = st.builds(
    ToolCall,
    st.sampled_from(["f", "g"]),
    ARGUMENTS,
    st.sampled_from([None, "1", "c"]),
    st.sampled_from([{}, {}, {"extra_content": {"s": 1}}]),
)
RESULTS = st.builds(
    ToolResult,
    CONTENTS,
    st.sampled_from([None, "f", "g"]),
    st.sampled_from([None, "1", "c", "x"]),
    st.sampled_from([None, True, False]),
)
ASSISTANTS = _message(
    "assistant",
    st.lists(CONTENTS | st.tuples(TEXTS.map(Reasoning)) | st.tuples(CALLS), max_size=3).map(
        lambda runs: tuple(part for run in runs for part in run)
    ),
    turn=TURNS,
)
USERS = _message("user", CONTENTS) | _message("system", CONTENTS)
TOOLS = _message("tool", st.lists(RESULTS, min_size=1, max_size=2).map(tuple), name=st.none())
CONVERSATIONS = st.lists(ASSISTANTS | ASSISTANTS | USERS | TOOLS, min_size=1, max_size=7)

_WORDS = st.sampled_from(
    ["text", "thinking", "image", "data", "file", "tool_use", "tool_call", "tool_result", "hint", "url", "base64"]
    + ["user", "assistant", "system", "image/png", "https://h/a.png", "data:image/png;base64,AAAA", "AAAA", "{}", ""]
)
_KEYS = st.sampled_from(
    ["type", "text", "thinking", "source", "url", "media_type", "data", "id", "name", "input", "raw_input", "output"]
    + ["hint", "state", "metadata", "role", "content", "pieces", "blocks", "media", "at", "extra", "parley"]
)
_LEAVES = st.none() | st.booleans() | st.integers(-1, 3) | st.floats(allow_nan=False) | _WORDS | TEXTS
JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))
_SOURCES = (
    st.fixed_dictionaries(
        {"type": st.sampled_from(["url", "base64"])},
        optional={"url": _WORDS, "media_type": _WORDS, "data": _WORDS},
    )
    | JSON
)
_KINDS = st.sampled_from(
    ["text", "thinking", "image", "audio", "video", "file", "data", "tool_use", "tool_call", "tool_result", "hint"]
)
_FIELDS = {"text": TEXTS, "thinking": TEXTS, "source": _SOURCES, "url": _WORDS, "id": _LEAVES, "name": _WORDS}


def _blocks(inner: Any) -> Any:
    calls = {"input": st.sampled_from(["{}", {}, {"a": 1}]), "raw_input": ARGUMENTS, "output": inner, "hint": inner}
    return st.fixed_dictionaries({"type": _KINDS}, optional={**_FIELDS, **calls, "state": _WORDS})


BLOCKS = _blocks(JSON | TEXTS | st.lists(_blocks(TEXTS), max_size=2))
_NOTES = st.fixed_dictionaries(
    {
        "id": _WORDS,
        "name": _WORDS,
        "pieces": st.lists(
            st.fixed_dictionaries(
                {"blocks": st.integers(0, 2)},
                optional={
                    "name": _LEAVES,
                    "turn": _LEAVES,
                    "extra": JSON,
                    "id": _LEAVES,
                    "tool": _LEAVES,
                    "call": JSON,
                    "is_error": _LEAVES,
                    "media": st.lists(
                        st.fixed_dictionaries(
                            {
                                "at": st.integers(0, 2),
                                "blocks": st.integers(0, 3),
                                "media": st.sampled_from(["image", "file", "x"]),
                            },
                            optional={"urls": st.lists(_WORDS, max_size=2), "frames": st.booleans()},
                        ),
                        max_size=2,
                    ),
                },
            ),
            max_size=3,
        ),
    }
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "name": _WORDS,
            "role": st.sampled_from(["user", "assistant", "system"]),
            "content": st.lists(BLOCKS, max_size=4) | TEXTS,
        },
        optional={
            "id": _LEAVES,
            "metadata": JSON | st.fixed_dictionaries({"parley": _NOTES}),
            "timestamp": TEXTS,
            "created_at": TEXTS,
            "url": _WORDS,
            "usage": JSON,
        },
    )
    | JSON,
    max_size=3,
)
