"""The beginning of a Gemini client's conversation is written once for a Gemini server: what is sent is the same."""

import copy
import json
from random import Random
from typing import Any

import pytest
from app.chat.messages import ChatRequest
from app.errors import ParleyError
from app.formats.body import ParsedRequest
from app.formats.gemini.body import GenerateTarget, parse_generate_body
from app.formats.gemini.signatures import write_signature
from app.formats.request_memory import MIN_BYTES, RequestMemory
from app.formats.seal import Seal
from app.profiles import Profile, find_profile
from app.runtime.token_counting import EstimatingCounter
from app.steps.beginning import MIN_MESSAGES, divide
from app.upstream.gemini.own import write_own_beginning
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import LONG
from tests.upstream.own_bodies import LIMITS, write

Json = dict[str, Any]
SEEDS = range(1500 if LONG else 20)
TARGET = GenerateTarget("m")
GEMINI = find_profile("gemini", "gemini")
PROFILES = {
    "gemini": GEMINI,
    "vertex": find_profile("vertex", "gemini"),
    "another": find_profile("openai_compatible", "gemini"),
    "without signatures": GEMINI.model_copy(update={"replay_extra_content": False}),
    "system first": GEMINI.model_copy(update={"system": "leading"}),
    "prompt": GEMINI.model_copy(update={"default_system": {"en": "Be kind."}}),
}
HI: Json = {"role": "user", "parts": [{"text": "Hi"}]}
SAID: Json = {"role": "model", "parts": [{"text": "Yes?"}]}
CALL: Json = {"functionCall": {"name": "look", "args": {"a": 1}}}
RESULT: Json = {"functionResponse": {"name": "look", "response": {"result": "ok"}}}
SEALED = write_signature(Seal("thought", [], {}, []))
SYSTEM: Json = {"role": "user", "parts": [{"text": "Be brief."}], "stranger": 1}


def read(body: Json, memory: RequestMemory | None = None) -> ChatRequest | None:
    caller = None if memory is None else memory.open("caller")
    parsed = parse_generate_body(json.dumps(body).encode(), LIMITS, caller, target=TARGET)
    if not isinstance(parsed, ParsedRequest):
        return None
    if caller is not None:
        caller.remember()
    return replace(parsed.request, known=None if caller is None else caller.conversation)


def find_beginning(body: Json, memory: RequestMemory, profile: Profile = GEMINI) -> int:
    """Return how many messages of a request are in its beginning."""
    request = read(body, memory)
    assert request is not None
    rest = divide(request, profile, EstimatingCounter(), write_own_beginning)
    return 0 if rest.before is None else len(rest.before.messages)


def make_text(rng: Random) -> str:
    return " ".join(rng.choice(("alpha", "beta", "né 😀", "\u2028")) for _ in range(rng.randrange(1, 90)))


def change(rng: Random, value: Json, chance: float = 0.2) -> Json:
    """Return an object with a field that nobody knows, or not."""
    strange = {f"stranger_{rng.randrange(9)}": rng.choice((1, True, 1.0, {"a": [0]}))}
    return {**value, **strange} if rng.random() < chance else value


def make_model_parts(rng: Random, calls: list[str]) -> list[Json]:
    parts: list[Json] = []
    if rng.random() < 0.4:
        parts.append({"text": make_text(rng), "thought": True})
    if rng.random() < 0.7 or not calls:
        parts.append(change(rng, {"text": make_text(rng)}))
    if rng.random() < 0.2:
        parts.append({"executable_code": {"language": "PYTHON", "code": "1"}})
    if rng.random() < 0.1:
        parts.append({"toolCall": {"id": "t"}, "thoughtSignature": "czI="})
    for place, id_ in enumerate(calls):
        call = {"name": "look", "args": {"a": rng.choice((1, 1.0, "é"))}, **({"id": id_} if id_ else {})}
        name = rng.choice(("functionCall", "function_call"))
        signature = rng.choice(("czE=", SEALED, None)) if not place else None
        parts.append({name: call, **({"thoughtSignature": signature} if signature else {})})
    return parts


def make_contents(rng: Random, turns: int) -> list[Json]:
    contents: list[Json] = []
    for turn in range(turns):
        contents.append(
            change(rng, {"role": rng.choice(("user", "user", "USER")), "parts": [{"text": make_text(rng)}]})
        )
        if rng.random() < 0.1:
            contents.append({"parts": [{"text": "And without a role."}]})
        has_ids = rng.random() < 0.5
        calls = [f"c{turn}_{place}" if has_ids else "" for place in range(rng.randrange(3))]
        parts = make_model_parts(rng, calls)
        cut = rng.randrange(len(parts)) if rng.random() < 0.3 else 0
        contents += [
            {"role": "model", "parts": some} for some in (parts[:cut], parts[cut:]) if some or rng.random() < 0.1
        ]
        if calls:
            results = [{**RESULT["functionResponse"], **({"id": id_} if id_ else {})} for id_ in calls]
            rows = [change(rng, {"functionResponse": one}) for one in results]
            contents.append({"role": rng.choice(("user", "function")), "parts": rows})
            contents.append({"role": "model", "parts": [{"text": make_text(rng)}]})
        if rng.random() < 0.05:
            contents.append({"role": "user", "parts": []})
    return [*contents, {"role": "user", "parts": [{"text": "The last."}]}]


def make_body(rng: Random) -> Json:
    tool = {"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}
    body: Json = {"contents": make_contents(rng, rng.randrange(14, 40)), "tools": [tool], "future": 1}
    system: Any = rng.choice((None, SYSTEM, "Be brief.", {"parts": []}))
    return body if system is None else {**body, rng.choice(("systemInstruction", "system_instruction")): system}


def disturb(rng: Random, body: Json) -> Json:
    """Return a body with a change of which no message may have anything."""
    chance = rng.random()
    if chance < 0.6:
        return body
    changed = copy.deepcopy(body)
    content = rng.choice(changed["contents"])
    if chance < 0.7:
        content["mood"] = rng.choice((1, True, 1.0))
    elif chance < 0.8:
        content["parts"].append({"partMetadata": {"a": rng.choice((1, True))}})
    elif chance < 0.9:
        changed["systemInstruction"] = {"parts": [{"text": rng.choice(("Be long.", ""))}], "mood": rng.randrange(3)}
    else:
        changed["contents"].insert(rng.randrange(1, 30), {"role": "system", "parts": [{"text": "Be glad."}]})
    return changed


@pytest.mark.parametrize("name", PROFILES)
def test_a_continued_conversation_is_sent_as_without_a_memory(name: str) -> None:
    profile, divided = PROFILES[name], 0
    for seed in SEEDS:
        rng = Random(seed)
        body = make_body(rng)
        memory = RequestMemory(50_000_000)
        cuts = sorted(rng.sample(range(18, len(body["contents"])), 5))
        for cut in (*cuts, len(body["contents"])):
            given = disturb(rng, {**body, "contents": [*body["contents"][:cut], HI]})
            plain = read(given)
            try:
                wanted = None if plain is None or plain.source is None else write(plain, profile)
            except ParleyError:
                wanted = None
            remembered = read(given, memory)
            if wanted is None or remembered is None:
                continue
            divided += find_beginning(given, memory, profile) > 0
            assert json.dumps(write(remembered, profile)) == json.dumps(wanted), (seed, cut)
    assert divided > 0 or profile.default_system


LONG_TALK = [{"role": "user", "parts": [{"text": "word " * (MIN_BYTES // 5)}]}, SAID] * 2 + [HI, SAID] * MIN_MESSAGES


def test_a_beginning_is_found_again() -> None:
    memory = RequestMemory(50_000_000)
    first = find_beginning({"contents": [*LONG_TALK, HI]}, memory)
    grown = [*LONG_TALK, HI, SAID, HI, SAID, HI]
    assert 0 < first < find_beginning({"contents": grown}, memory)


def test_the_system_of_the_request_itself_is_sent() -> None:
    memory = RequestMemory(50_000_000)
    for mood in (1, 2):
        body = {"contents": [*LONG_TALK, HI], "systemInstruction": {**SYSTEM, "mood": mood}}
        assert find_beginning(body, memory) > 0
        request = read(body, memory)
        assert request is not None
        assert write(request, GEMINI)[0] == body


@each_case(
    ("contents", "is_kept"),
    [
        ([HI, SAID, HI], True),
        ([HI, SAID], False),
        ([HI, {"role": "model", "parts": [CALL]}, {"role": "user", "parts": [RESULT]}], True),
        ([HI, {"role": "MODEL", "parts": [{"text": "Yes?"}]}], False),
        ([HI, {"role": "model", "parts": [CALL]}, {"role": "function", "parts": [RESULT]}], True),
    ],
)
def test_a_beginning_ends_with_the_user(contents: list[Json], is_kept: bool) -> None:
    request = read({"contents": contents})
    assert request is not None
    written = write_own_beginning(request, GEMINI)
    assert (None if written is None else written.messages) == (contents if is_kept else None)
