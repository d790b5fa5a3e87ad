"""Properties of every body that a server of the client's own API is sent, over recorded and random conversations."""

import copy
import json
import random
from typing import Any

import pytest
from app.chat.messages import SEAL_PREFIX, Message, Text, ToolCall, ToolResult
from app.errors import ParleyError
from app.formats.request_memory import RequestMemory
from app.profiles import KINDS, Profile, find_profile
from app.upstream.messages.own import EXTENSIONS as MESSAGES_EXTENSIONS
from app.upstream.messages.own_entries import arrange_entries
from app.upstream.responses.own import EXTENSIONS as RESPONSES_EXTENSIONS
from msgspec.structs import replace

from tests.effort import LONG
from tests.upstream.messages.recordings import GOLDENS
from tests.upstream.own_bodies import find_api_name, has_media, read, write
from tests.upstream.recorded_bodies import BODIES

Json = dict[str, Any]
EXTENSIONS = {"messages": MESSAGES_EXTENSIONS, "responses": RESPONSES_EXTENSIONS}
SEEDS = range(2000 if LONG else 8)


def find_entries(body: Json) -> list[Any]:
    given = body.get("messages", body.get("input"))
    return given if isinstance(given, list) else []


def is_our_own(body: Json) -> bool:
    """Whether something in a body is of a gateway: a seal, or a call that it ran."""
    text = json.dumps(body)
    return SEAL_PREFIX in text or '"mcp_' in text or '"mcpl_' in text


def without_ids(entries: Any) -> Any:
    """Return items without their own ids, of which those that no server of the API gives are left out, and reasoning
    without its status, which OpenAI refuses."""
    own = {True: ("id", "status"), False: ("id",)}
    return [
        {name: value for name, value in one.items() if name not in own[one.get("type") == "reasoning"]}
        if isinstance(one, dict)
        else one
        for one in entries
    ]


def test_a_server_that_takes_everything_gets_each_recorded_body_as_it_came() -> None:
    if not BODIES:
        pytest.skip("no recorded bodies")
    checked = 0
    for body in BODIES:
        api = find_api_name(body)
        request = None if is_our_own(body) else read(body)
        if request is None or request.source is None or has_media(request):
            continue
        sent, warnings = write(request, find_profile("anthropic" if api == "messages" else "openai", api).neutral)
        given = {name: value for name, value in body.items() if name not in EXTENSIONS[api] and name != "store"}
        if api == "messages":
            given["messages"] = [*arrange_entries(given["messages"], takes_all=True).entries]
        assert without_ids(find_entries(sent)) == without_ids(find_entries(given)), body
        kept = {name: value for name, value in sent.items() if name in given and name not in ("model", "input")}
        wanted = {name: value for name, value in given.items() if name not in ("model", "input")}
        added = EXTENSIONS[api].isdisjoint(body)
        assert not added or kept == wanted, body
        assert not added or not warnings, (body, warnings)
        checked += 1
    assert checked >= 20 or not GOLDENS.is_dir()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_recorded_body_is_built_for_each_kind_of_server_without_a_seal(kind: str) -> None:
    for number, body in enumerate(BODIES):
        api = find_api_name(body)
        request = read(body) if number % 7 == 0 or LONG else None
        if request is None or request.source is None:
            continue
        try:
            sent, _ = write(request, find_profile(kind, api))
        except ParleyError:
            continue
        assert SEAL_PREFIX not in json.dumps(sent), body
        assert sent["model"] == "up"


# Random conversations.


def make_text(rng: random.Random, size: int = 400) -> str:
    return " ".join(rng.choice(("alpha", "beta", "gamma", "delta")) for _ in range(rng.randrange(1, size // 4)))


def add_stranger(rng: random.Random, value: Json) -> Json:
    return (
        {**value, f"stranger_{rng.randrange(9)}": rng.choice((1, True, 1.0, None, {"a": [0]}))}
        if rng.random() < 0.3
        else value
    )


def make_messages(rng: random.Random, turns: int) -> list[Json]:
    entries: list[Json] = []
    for turn in range(turns):
        entries.append(add_stranger(rng, {"role": "user", "content": make_text(rng)}))
        blocks: list[Json] = []
        if rng.random() < 0.5:
            blocks.append({"type": "thinking", "thinking": make_text(rng, 90), "signature": rng.choice(("", "native"))})
        if rng.random() < 0.8:
            blocks.append(add_stranger(rng, {"type": "text", "text": make_text(rng)}))
        calls = [f"toolu_{turn}_{place}" for place in range(rng.randrange(3))]
        if not blocks and not calls:
            blocks.append({"type": "text", "text": "So."})
        used = [{"type": "tool_use", "id": id_, "name": "look", "input": {"a": 1}} for id_ in calls]
        entries.append(
            add_stranger(rng, {"role": "assistant", "content": blocks + [add_stranger(rng, one) for one in used]})
        )
        results = [{"type": "tool_result", "tool_use_id": id_, "content": make_text(rng)} for id_ in calls]
        if results:
            more: list[Json] = [{"type": "text", "text": "Go on."}] if rng.random() < 0.4 else []
            entries.append({"role": "user", "content": [add_stranger(rng, one) for one in results] + more})
            entries.append({"role": "assistant", "content": make_text(rng)})
    entries.append({"role": "user", "content": "The last."})
    return entries


def make_items(rng: random.Random, turns: int) -> list[Json]:
    items: list[Json] = []
    for turn in range(turns):
        items.append(add_stranger(rng, {"type": "message", "role": "user", "content": make_text(rng)}))
        if rng.random() < 0.5:
            sealed = {"encrypted_content": "d"} if rng.random() < 0.5 else {}
            thought = {"type": "reasoning", "id": f"rs_{turn}", "summary": [], **sealed}
            items.append({**thought, "content": [{"type": "reasoning_text", "text": make_text(rng, 90)}]})
        said = {"type": "message", "role": "assistant", "content": make_text(rng)}
        items.append(add_stranger(rng, {**said, "id": rng.choice(("msg_1", "item_1"))}))
        calls = [f"call_{turn}_{place}" for place in range(rng.randrange(3))]
        items += [{"type": "function_call", "call_id": id_, "name": "look", "arguments": "{}"} for id_ in calls]
        items += [
            add_stranger(rng, {"type": "function_call_output", "call_id": id_, "output": make_text(rng)})
            for id_ in calls
        ]
        if calls:
            items.append({**said, "id": "msg_2", "content": make_text(rng)})
    items.append({"type": "message", "role": "user", "content": "The last."})
    return items


def make_body(rng: random.Random, api: str, turns: int) -> Json:
    head: Json = {"model": "m", "future": 1}
    if api == "messages":
        tool = {"name": "look", "input_schema": {"type": "object"}}
        return {**head, "max_tokens": 9, "system": "Be brief.", "tools": [tool], "messages": make_messages(rng, turns)}
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    return {**head, "instructions": "Be brief.", "tools": [tool], "input": make_items(rng, turns)}


KIND_PAIRS = [
    *(("messages", kind) for kind in ("anthropic", "anthropic_compatible", "vllm", "lmstudio")),
    *(("responses", kind) for kind in ("openai", "openai_compatible", "sglang")),
]


@pytest.mark.parametrize(("api", "kind"), KIND_PAIRS)
def test_a_continued_conversation_is_sent_as_without_a_memory(api: str, kind: str) -> None:
    profile = find_profile(kind, api)
    for seed in SEEDS:
        rng = random.Random(seed)
        body = make_body(rng, api, rng.randrange(20, 50))
        name = "messages" if api == "messages" else "input"
        memory = RequestMemory(50_000_000)
        cuts = sorted(rng.sample(range(18, len(body[name]) + 1), 4))
        for cut in (*cuts, len(body[name])):
            given = {**body, name: [*body[name][: cut - 1], body[name][-1]]}
            if rng.random() < 0.4:  # a client changes what no message shows
                given = copy.deepcopy(given)
                place = rng.randrange(len(given[name]))
                given[name][place]["mood"] = rng.choice((1, True, 1.0, 0, False))
            try:
                plain = read(given)
                assert plain is not None
                wanted = write(plain, profile)
            except ParleyError:
                continue
            remembered = read(given, memory=memory)
            assert remembered is not None
            sent = write(remembered, profile)
            assert json.dumps(sent) == json.dumps(wanted), (seed, cut)


@pytest.mark.parametrize(("api", "kind"), KIND_PAIRS)
def test_what_the_gateway_does_not_know_is_sent_or_named(api: str, kind: str) -> None:
    profile = find_profile(kind, api)
    for seed in SEEDS:
        rng = random.Random(seed)
        body = make_body(rng, api, 4)
        request = read(body)
        assert request is not None and request.source is not None
        try:
            sent, warnings = write(request, profile)
        except ParleyError:
            continue
        lost = count_strangers(find_entries(body)) - count_strangers(find_entries(sent))
        assert sent["future"] == 1
        assert lost == 0 or api == "responses" or kind == "lmstudio" or warnings, (seed, warnings)


def count_strangers(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(count_strangers, value))
    if not isinstance(value, dict):
        return 0
    return sum(str(name).startswith("stranger") for name in value) + sum(map(count_strangers, value.values()))


def edit(rng: random.Random, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Do to messages what a step may do: drop, change or add texts of users and of the model."""
    out: list[Message] = []
    for message in messages:
        has_calls = any(isinstance(part, ToolCall | ToolResult) for part in message.parts)
        chance = rng.random()
        if not has_calls and chance < 0.15 and len(out) > 1:
            continue
        if not has_calls and chance < 0.3:
            message = replace(message, parts=(Text("changed"),))
        out.append(message)
        if chance > 0.9 and message.role == "tool":
            out.append(Message("user", (Text("added"),)))
    return (*out, Message("user", (Text("added at the end"),)))


@pytest.mark.parametrize(("api", "kind"), KIND_PAIRS)
def test_edits_of_steps_change_nothing_else(api: str, kind: str) -> None:
    profile = find_profile(kind, api)
    for seed in SEEDS:
        rng = random.Random(seed)
        body = make_body(rng, api, 8)
        request = read(body)
        assert request is not None
        edited = replace(request, messages=edit(rng, request.messages))
        sent, _ = write(edited, profile)
        check_calls(find_entries(sent))
        kept = {id(message) for message in edited.messages}
        text = json.dumps(sent)
        assert text.count("added at the end") == 1
        for message in request.messages:
            if id(message) in kept and isinstance(message.parts[0], Text) and len(message.parts[0].text) > 60:
                assert text.count(json.dumps(message.parts[0].text)) == 1, seed


def check_calls(entries: list[Any]) -> None:
    """Check that each call has one result behind it."""
    blocks = [
        block
        for entry in entries
        for block in (entry["content"] if isinstance(entry.get("content"), list) else [entry])
        if isinstance(block, dict)
    ]
    calls = [one.get("id") for one in blocks if one.get("type") == "tool_use"]
    results = [one.get("tool_use_id") for one in blocks if one.get("type") == "tool_result"]
    calls += [one["call_id"] for one in blocks if one.get("type") == "function_call"]
    results += [one["call_id"] for one in blocks if one.get("type") == "function_call_output"]
    assert calls == results


def test_a_neutral_server_differs_from_each_kind_only_in_what_it_refuses() -> None:
    for api in ("messages", "responses"):
        for kind in KINDS:
            profile = find_profile(kind, api)
            neutral = profile.neutral
            assert neutral.takes == "all" and neutral.lacks == () and neutral.neutral.takes == "all"
            assert isinstance(neutral, Profile)
