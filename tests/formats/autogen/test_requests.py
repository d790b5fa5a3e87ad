"""What a model server is sent for AutoGen's lists, compared with what AutoGen itself sends."""

import json
from typing import Any

import pytest
from app.errors import InvalidInput

from tests.each_case import each_case
from tests.formats.autogen.recorded_cases import calls, read, results, text, thought, written
from tests.formats.autogen.recorded_requests import AGENTS, PROFILE, PROFILES, REQUESTS, TRANSCRIPTS, sent

DEVIATIONS: dict[str, tuple[str, list[Any] | None]] = {
    "r04_two_system_merged": (
        "merging system messages is an option of AutoGen's client; what was said is sent",
        [
            {"role": "system", "content": "one"},
            {"role": "system", "content": "two"},
            {"role": "user", "name": "user", "content": "Hi"},
        ],
    ),
    "r05_system_not_contiguous": (
        "a system message that is not the first is refused by AutoGen's client, not by the format",
        [
            {"role": "system", "content": "one"},
            {"role": "user", "name": "user", "content": "Hi"},
            {"role": "system", "content": "two"},
        ],
    ),
    "r15_chinese_source_name": (
        "AutoGen's client refuses names that OpenAI refuses; here they are made sendable",
        [{"role": "user", "name": "__", "content": "你好"}],
    ),
    "r18_empty_strings": (
        "an assistant's turn that says nothing is left out, as AutoGen does for some families; a user's is sent",
        [{"role": "user", "name": "user", "content": ""}, {"role": "user", "name": "user", "content": "x"}],
    ),
    "r17_add_name_prefixes": (
        "prefixes in the text are an option of AutoGen's client; who speaks is said by the name",
        [
            {"role": "user", "name": "bob", "content": "hi"},
            {
                "role": "user",
                "name": "amy",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "<the image>"}},
                ],
            },
            {"role": "assistant", "content": "yo"},
        ],
    ),
}


def plain(value: Any) -> Any:
    """`detail: auto` is what a server assumes where nothing is said; images are compared by their presence."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "url" in value:
        return {"url": "<the image>"}
    return {key: plain(one) for key, one in value.items()}


@each_case("name", REQUESTS)
def test_a_core_list_is_sent_as_autogens_client_sends_it(name: str) -> None:
    case, expected = REQUESTS[name], REQUESTS[name]["expected"]["default_family"]
    profile = PROFILES.get(name, PROFILE)
    if name in DEVIATIONS:
        ours = DEVIATIONS[name][1]
        assert plain(expected.get("body", {}).get("messages")) != ours
        assert plain(sent(read(case["input"]), profile)) == ours
    elif "error" in expected:
        with pytest.raises(InvalidInput):
            sent(read(case["input"]), profile)
    else:
        assert plain(sent(read(case["input"]), profile)) == plain(expected["body"]["messages"])


@each_case("name", [name for name in REQUESTS if "mistral" in REQUESTS[name]["expected"]["differing_families"]])
def test_a_family_without_names_is_sent_none(name: str) -> None:
    expected = REQUESTS[name]["expected"]["differing_families"]["mistral"]["body"]["messages"]
    if name not in DEVIATIONS:
        profile = PROFILES.get(name, PROFILE).model_copy(update={"names": "none"})
        assert plain(sent(read(REQUESTS[name]["input"]), profile)) == plain(expected)


@each_case("name", REQUESTS)
def test_a_core_list_comes_back_equal(name: str) -> None:
    items = REQUESTS[name]["input"]
    assert written(read(items)) == items


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_is_sent_as_the_agent_sends_its_context(name: str) -> None:
    case = AGENTS[name]
    ours = sent(read(case["input"]["transcript"], case["input"]["agent_name"]))
    theirs = sent(read([one for one in case["model_context_after"] if one["type"] != "SystemMessage"]))
    if name == "a11_structured":  # the blanks of the model's own JSON are not in the message that was made of it
        assert json.loads(ours[-1].pop("content")) == json.loads(theirs[-1].pop("content"))
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_comes_back_equal(name: str) -> None:
    case = AGENTS[name]["input"]
    events = [one for turn in AGENTS[name]["events"] for one in turn]
    for items in (case["transcript"], events):
        for agent in (case["agent_name"], None):
            assert written(read(items, agent), agent) == items


def test_messages_of_other_agents_are_sent_as_an_agent_sends_what_it_received() -> None:
    case = AGENTS["a12_foreign_messages_to_request"]
    system = {"type": "SystemMessage", "content": case["system_message"]}
    messages = read([system, *case["input"]], case["agent_name"])
    assert plain(sent(messages)) == plain(case["request"])
    assert written(messages, case["agent_name"]) == [system, *case["input"]]


def test_text_between_a_call_and_its_result_is_sent_beside_the_call() -> None:
    items = [text("user", "go"), calls("a", "1"), text("a", "wait"), results("a", "1")]
    call = {"id": "1", "type": "function", "function": {"name": "f_1", "arguments": "{}"}}
    assert sent(read(items))[1:] == [
        {"role": "assistant", "content": "wait", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "r 1"},
    ]


def test_thoughts_and_calls_of_one_answer_are_sent_as_one_message() -> None:
    items = [
        text("user", "go"),
        thought("a", "hm", metadata={"kind": "reasoning"}),
        thought("a", "now"),
        calls("a", "1", "2"),
    ]
    sent_ = sent(read([*items, results("a", "2", "1")]))
    assert [one["role"] for one in sent_] == ["user", "assistant", "tool", "tool"]
    assert sent_[1]["reasoning_content"] == "hm"
    assert sent_[1]["content"] == "now"
    assert [one["id"] for one in sent_[1]["tool_calls"]] == ["1", "2"]
