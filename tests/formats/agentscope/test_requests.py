"""What a model is sent for AgentScope's messages is what AgentScope's own formatters send, but for `DIFFERENT`."""

from typing import Any

from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format
from app.profiles import Profile

from tests.each_case import each_case
from tests.formats.agentscope.cases import Json, load, sent
from tests.formats.agentscope.recorded_requests import CASES, DEEPSEEK, OPENAI

SPEAKERS = {"user": "user", "assistant": "Friday"}
OWN_LINES = "a result's texts are lines, without a dash before each"
MEDIA = "media of a result follow it in a message of the user; nothing is written to this machine's files"
DROPPED_MEDIA = "DeepSeek's formatter leaves media out without a word; a profile refuses them"
BLANK = "2.x sends `reasoning_content` with every message of an assistant; only tool turns need it, by profile"


def tool(content: str, id: str = "call_1", name: str = "f") -> Json:
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


def text_message(role: str, content: str) -> Json:
    return {"role": role, "name": SPEAKERS[role], "content": [{"type": "text", "text": content}]}


def called() -> Json:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "name": "Friday", "content": None, "tool_calls": [call]}


DIFFERENT: dict[tuple[str, str], tuple[str, Any]] = {
    ("q06", "DeepSeek"): ("thinking alone goes back where thinking does", {"reasoning_content": "secret"}),
    ("q11", "OpenAI"): ("audio/mpeg is mp3", {"type": "input_audio"}),
    ("q16", "OpenAI"): (OWN_LINES, tool("12:00\nCET", "call_2", "get_time")),
    ("q16", "DeepSeek"): (OWN_LINES, tool("12:00\nCET", "call_2", "get_time")),
    ("q17", "OpenAI"): (
        "a result stands behind its call, not before it",
        [text_message("user", "x"), called(), tool("r"), text_message("assistant", "done")],
    ),
    ("q17", "DeepSeek"): (
        "a result stands behind its call, not before it",
        [
            {"role": "user", "content": "x"},
            {key: value for key, value in called().items() if key != "name"},
            tool("r"),
            {"role": "assistant", "content": "done"},
        ],
    ),
    ("q18", "OpenAI"): (MEDIA, tool("here\n[image 1: see below]", name="draw")),
    ("q18", "DeepSeek"): (MEDIA, tool("here\n[image 1: see below]", name="draw")),
    ("q19", "OpenAI"): (MEDIA, tool("[image 1: see below]", name="draw")),
    ("q19", "DeepSeek"): (MEDIA, tool("[image 1: see below]", name="draw")),
    ("q20", "OpenAI"): (MEDIA, tool("[audio 1: see below]\n[video 2: see below]")),
    ("q20", "DeepSeek"): (MEDIA, tool("[audio 1: see below]\n[video 2: see below]")),
    ("q23", "OpenAI"): ("arguments go back as the model wrote them", '{"a":  1}'),
    ("q23", "DeepSeek"): ("arguments go back as the model wrote them", '{"a":  1}'),
    ("q24", "OpenAI"): ("a result without its call is refused", "no matching call before it"),
    ("q24", "DeepSeek"): ("a result without its call is refused", "no matching call before it"),
    ("w07", "OpenAI"): ("whether a server takes ogg is for it to say", {"format": "ogg"}),
    ("w09", "OpenAI"): ("a video is sent, or refused by the profile, not dropped", {"type": "video_url"}),
    ("w12", "OpenAI"): (MEDIA, tool("here\n[image 1: see below]", name="draw")),
    ("w12", "DeepSeek"): (MEDIA, tool("here\n[image 1: see below]", name="draw")),
}
"""By golden and formatter: why, and what is in our messages that is not in theirs. Text is looked for inside."""

MEDIA_ALONE = {"q09", "q10", "q11", "w04", "w05", "w06", "w07", "w08", "w09", "w16"}
REPAIRED_SINCE = {
    "OpenAI": {"q14", "q23", "q28"},
    "DeepSeek": {"q05", "q14", "q15", "q23", "q28", "q29"},
}
"""Goldens of 1.0.0 that 1.0.21 does otherwise: a string was no result, DeepSeek got no thinking."""


def without_blank_reasoning(messages: list[Json]) -> list[Json]:
    return [{key: value for key, value in one.items() if (key, value) != ("reasoning_content", "")} for one in messages]


def holds(found: Any, wanted: Any) -> bool:
    """Whether the wanted stands anywhere inside; of an object, these keys; a list as a whole."""
    if isinstance(wanted, list):
        return bool(found == wanted)
    if isinstance(wanted, str) and isinstance(found, str):
        return wanted in found
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.items() <= found.items():
        return True
    inner = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return any(holds(one, wanted) for one in inner)


@each_case(("form", "messages", "formatter", "name", "expected", "id"), [(*case.values, case.id) for case in CASES])
def test_a_model_is_sent_what_agentscope_sends(
    form: Format, messages: list[Json], formatter: str, name: str, expected: Json, id: str
) -> None:
    ours = sent(form, messages, OPENAI if formatter == "OpenAI" else DEEPSEEK)
    if "v1_1_0_0" in id and name in REPAIRED_SINCE[formatter]:
        assert ours != expected.get("messages")
        assert ours == newest(name, formatter)
    elif (name, formatter) in DIFFERENT:
        _, wanted = DIFFERENT[name, formatter]
        assert holds(ours, wanted)
        assert not holds(expected.get("messages", []), wanted)
    elif formatter == "DeepSeek" and name in MEDIA_ALONE:
        assert holds(ours, {"type": "text"}), DROPPED_MEDIA
    elif formatter == "DeepSeek" and form is AGENTSCOPE2:
        assert ours == without_blank_reasoning(expected["messages"]), BLANK
    else:
        assert ours == expected["messages"]


def newest(name: str, formatter: str) -> list[Json]:
    """What 1.0.21 sends for the same messages."""
    goldens = {key[:3]: golden for key, golden in load("agentscope/requests_v1").items()}
    found: list[Json] = goldens[name]["expected"][f"{formatter}ChatFormatter"]["messages"]
    return found


def test_every_difference_is_one_of_a_golden() -> None:
    names = {(case.values[3], case.values[2]) for case in CASES}
    assert DIFFERENT.keys() <= names


def test_an_image_of_a_result_follows_all_results_in_one_message() -> None:
    golden = next(golden for name, golden in load("agentscope/requests_v2").items() if name.startswith("w12"))
    messages = sent(AGENTSCOPE2, golden["input"], Profile())
    assert isinstance(messages, list)
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    assert [part["type"] for part in messages[3]["content"]] == ["text", "image_url"]


def test_a_file_is_sent_under_its_name() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}
    block = {"type": "data", "source": source, "name": "a.pdf"}
    messages = sent(AGENTSCOPE2, [{"name": "u", "role": "user", "content": [block]}], Profile())
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="}
    assert messages == [{"role": "user", "content": [{"type": "file", "file": file}]}]
