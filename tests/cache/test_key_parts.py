"""What counts beside the request: who asks, which server, and how its replies are read."""

import json
import tracemalloc
from typing import Any, get_args, get_origin

import msgspec
import pytest
from app.cache import key as keys
from app.cache.key import KeyPart, cache_key
from app.chat.known_conversation import KnownConversation
from app.profiles import READS_REPLIES, SHAPES_REQUESTS, Profile, select_reply_fields
from app.routing.route import MAX_KEYS
from app.steps.pipeline import carries_logprobs, reply_stages, reply_traits
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cache.cache_keys import PLAIN, Json, key, prepared, rich, schema
from tests.each_case import each_case

PART = KeyPart("http://a/v1", "m", b'{"messages":[],"a":1}', {"stop": ["x"]}, {"inline_think": "off"})
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def test_the_key_is_64_hexadecimal_digits_and_the_same_in_every_process() -> None:
    """Where this fails without intent, everything that was ever cached is lost; with intent, raise VERSION."""
    assert cache_key([PART], "shared") == "00ab7c0a5a4eb0289457b8a7f926b3ea2dffca6e28ec1507043d0adf08c9d20b"


def test_a_request_remembers_its_keys_for_some_scopes() -> None:
    request, scopes = prepared(rich(), PLAIN), [str(number) for number in range(3 * MAX_KEYS)]
    first = [request.key(scope) for scope in scopes]
    assert len(set(first)) == len(scopes)
    assert first == [prepared(rich(), PLAIN).key(scope) for scope in scopes]
    assert first[-3:] == [request.key(scope) for scope in scopes[-3:]]
    assert first == [request.key(scope) for scope in scopes]
    assert 0 < len(request.keys) <= MAX_KEYS


@pytest.mark.parametrize(
    "changed",
    [
        {"base_url": "http://b/v1"},
        {"model": "n"},
        {"body": b'{"messages":[],"a":2}'},
        {"body": b'{"messages":[{}],"a":1}'},
        {"body": b'{"messages":[],"b":1}'},
        {"traits": {"stop": ["y"]}},
        {"profile": {"inline_think": "leading"}},
        {"headers": (("x-variant", "b"),)},
    ],
    ids=str,
)
def test_every_part_counts(changed: Json) -> None:
    assert cache_key([replace(PART, **changed)], "s") != cache_key([PART], "s")
    assert cache_key([PART, replace(PART, **changed)], "s") != cache_key([PART, PART], "s")


def test_fields_of_a_profile_that_are_encoded_already_give_the_same_key() -> None:
    for profile in (Profile(), Profile(think_interrupt="<tool_call>", native_tools=False, text_tools="hermes")):
        as_fields = replace(PART, profile=select_reply_fields(profile))
        encoded = replace(PART, profile=profile.encoded_reply_fields)
        assert cache_key([encoded], "s") == cache_key([as_fields], "s")


def test_every_way_of_a_route_counts_and_their_order() -> None:
    other = replace(PART, base_url="http://b/v1")
    routes = [[PART], [other], [PART, other], [other, PART], [PART, PART], []]
    assert len({cache_key(route, "s") for route in routes}) == len(routes)


@given(TEXTS, TEXTS)
def test_two_scopes_never_share(one: str, other: str) -> None:
    assert (cache_key([PART], one) == cache_key([PART], other)) is (one == other)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_no_text_passes_for_its_neighbour(url: str, model: str, other_url: str, other_model: str) -> None:
    one, other = replace(PART, base_url=url, model=model), replace(PART, base_url=other_url, model=other_model)
    assert (cache_key([one], "s") == cache_key([other], "s")) is (one == other)


def test_a_large_message_is_not_copied() -> None:
    body = b'{"messages":["' + b"x" * 5_000_000 + b'"],"a":1}'
    cache_key([PART], "s")
    tracemalloc.start()
    try:
        cache_key([replace(PART, body=body), replace(PART, body=body)], "s")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("constant", ["VERSION", "PREPROCESSING"])
def test_a_raised_version_leaves_everything_behind(constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key([PART], "s")
    monkeypatch.setattr(keys, constant, getattr(keys, constant) + 1)
    assert cache_key([PART], "s") != before


def test_every_field_of_a_profile_reads_replies_or_shapes_requests() -> None:
    assert not READS_REPLIES & SHAPES_REQUESTS
    assert set(Profile.model_fields) == READS_REPLIES | SHAPES_REQUESTS


class Watched:
    """Notes what is asked of it."""

    def __init__(self, watched: Any) -> None:
        self._watched = watched
        self.seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.seen.add(name)
        return getattr(self._watched, name)

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return self._watched.get(name, default)


PROFILES = [
    Profile(text_tools="hermes"),
    Profile(text_tools="harmony", inline_think="off"),
    Profile(native_tools=False),
    Profile(native_tools=False, fncall_prompt_type="qwen"),
]
CFGS: list[Json] = [
    {},
    {"stop": ["a"], "repair_arguments": True},
    {"function_choice": "none"},
    {"enable_thinking": False},
    {"tool_choice": "look"},
    {"parallel_function_calls": True},
    {"thought_in_content": True},
    {"use_raw_api": False, "fncall_prompt_type": "qwen"},
    {"use_raw_api": True},
]


def test_the_fields_that_read_replies_are_those_that_reading_one_asks_for() -> None:
    seen: set[str] = set()
    for profile in PROFILES:
        for cfg in CFGS:
            watched = Watched(profile)
            reply_stages(prepared({**rich(), "generate_cfg": cfg}).request, watched, "r")  # type: ignore[arg-type]
            seen |= watched.seen
    # `text_family` is of `text_tools`; the traits have the names that `max_function_name` changes; `empty_replies`
    # decides what is cached, not what a stage reads.
    assert seen - {"text_family", "max_function_name"} | {"empty_replies"} == READS_REPLIES


@each_case("profile", PROFILES)
@each_case("cfg", CFGS, ids=str)
def test_the_traits_of_a_request_are_of_all_that_reading_its_reply_asks_for(profile: Profile, cfg: Json) -> None:
    asked = prepared({**rich(), "generate_cfg": cfg}).request
    by_stages, by_traits = Watched(asked.params), Watched(asked.params)
    reply_stages(replace(asked, params=by_stages), profile, "r")
    carries_logprobs(replace(asked, params=by_stages), profile)
    reply_traits(replace(asked, params=by_traits), profile)
    assert by_traits.seen == by_stages.seen


@pytest.mark.parametrize(
    ("profile", "cfg", "counts"),
    [
        (Profile(), {}, False),
        (Profile(text_tools="hermes"), {}, True),
        (Profile(text_tools="hermes"), {"function_choice": "none"}, False),
        (Profile(native_tools=False), {}, True),
        (Profile(native_tools=False), {"function_choice": "none"}, False),
    ],
)
def test_functions_are_traits_where_calls_are_read_from_the_text(profile: Profile, cfg: Json, counts: bool) -> None:
    one, other = ({**rich(), "functions": [schema("look"), schema(name)], "generate_cfg": cfg} for name in "ab")
    traits = [reply_traits(prepared(body, profile).request, profile) for body in (one, other)]
    assert (traits[0] != traits[1]) is counts


def _others(name: str) -> list[Any]:
    """Other values for a field of a profile."""
    if name in SPECIAL:
        return SPECIAL[name]
    usual = getattr(Profile(), name)
    if isinstance(usual, bool):
        return [not usual]
    annotation = Profile.model_fields[name].annotation
    if get_origin(annotation) is not None and usual in get_args(annotation):
        return [value for value in get_args(annotation) if value != usual]
    return [5_000]


SPECIAL: dict[str, list[Any]] = {
    "think_tags": [("<t>", "</t>")],
    "think_interrupt": ["<tool_call>"],
    "answer_tags": ["none", ("<answer>", "</answer>")],
    "text_tools": ["hermes", "harmony"],
    "continuation": ["partial"],
    "name_media": ["never", "untaken", "with_tools"],
    "default_system": [{"en": "Hello"}],
    "tokenizer": [],
    "media_tokens": [{"image": 1}],
    "media": [("image",), ("image", "audio")],
    "inline_media": [("audio",)],
    "renamed": [{"temperature": "heat"}],
    "lacks": [("temperature",)],
    "extra_fields": [],
    "tool_choice_required": [None, "any"],
    "image_formats": [],
    "blank_reasoning": [" "],
    "missing_signature": ["skip"],
    "efforts": [(), ("high",), {"low": "high"}],
    "effort_excludes": [("switch",), ("budget",)],
    "response_formats": [(), ("json_object",)],
    "max_image_pixels": [],
    "max_image_short_side": [],
    "max_media_bytes": [],
    "max_stop_words": [],
    "passed_urls": [],
    "allowed_fields": [],
    "thinking_binding": ["drop_block"],
    "reasoning_summary": ["auto"],
    "session_header": ["x-session"],
    "caller_fields": [],
}
"""None where there is nothing to see in a request that is short, needs nothing fetched and is not refused."""


def _asked_for(profile: Profile) -> Json:
    """What is sent, without the way in which the reply is to come."""
    body: Json = json.loads(prepared(rich(), profile).bodies[0])
    return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}


@pytest.mark.many_cases
@each_case("name", sorted(READS_REPLIES | SHAPES_REQUESTS))
def test_a_profile_counts_exactly_as_far_as_it_changes_what_is_sent_or_how_the_reply_is_read(name: str) -> None:
    usual = _asked_for(PLAIN)
    for value in _others(name):
        profile = Profile(**{name: value})
        same = _asked_for(profile) == usual
        assert (key(rich(), profile) == key(rich())) is (same and name in SHAPES_REQUESTS), value
        assert (select_reply_fields(profile) == select_reply_fields(Profile())) is (name in SHAPES_REQUESTS)


TOOLS = [{"name": f"f{number}", "parameters": {"properties": {"b": {}, "a": {}}}} for number in range(60)]


@given(texts=st.lists(TEXTS, min_size=2, max_size=6), cuts=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_beginning_whose_hash_is_remembered_changes_no_key(texts: list[str], cuts: list[int]) -> None:
    known = KnownConversation()
    messages = [{"role": "user", "content": text} for text in texts]
    for number, cut in enumerate(cuts):
        given = messages[: cut + 1]
        body = msgspec.json.encode(
            {"model": '"messages":[', "messages": given, "stream": True, "tools": TOOLS[number:]}
        )
        part = replace(PART, body=body)
        beginning = msgspec.json.encode(given[: max(1, len(given) - 1)])[1:-1]
        assert cache_key([replace(part, beginning=beginning, known=known)], "s") == cache_key([part], "s")


def test_the_items_of_a_responses_body_are_compared_as_they_are_sent() -> None:
    def key(body: bytes, conversation: str = "input") -> str:
        return cache_key([replace(PART, body=body, conversation=conversation)], "s")

    assert key(b'{"input":[{"a":1,"b":2}]}') != key(b'{"input":[{"b":2,"a":1}]}')
    assert key(b'{"input":[{"a":1}],"x":{"a":1,"b":2}}') == key(b'{"x":{"a":1,"b":2},"input":[{"a":1}]}')
    assert key(b'{"input":[{"a":1}]}') != key(b'{"messages":[{"a":1}]}', "messages")
    assert key(b'{"input":[1],"messages":[2]}') != key(b'{"input":[2],"messages":[1]}')


def test_each_server_has_a_beginning_of_its_own() -> None:
    known = KnownConversation()
    for text in ("a", "b", "a"):
        body = msgspec.json.encode({"messages": [{"content": text}, {"content": "x"}]})
        part = KeyPart(
            f"http://{text}/v1", "m", body, {}, {}, beginning=b'{"content":"%b"}' % text.encode(), known=known
        )
        assert cache_key([part], "s") == cache_key([replace(part, known=None)], "s")


def test_the_beginning_is_looked_for_in_the_conversation_alone() -> None:
    beginning, rest = b'{"content":"a"}', b'{"content":"b"}'
    others = b'{"system":[{"messages":[%b,%b]}],"messages":[%b]}' % (beginning, rest, rest)
    first = b'{"system":[{"messages":[%b]}],"messages":[%b,%b]}' % (rest, beginning, rest)
    keys = {
        cache_key([replace(PART, body=body, beginning=beginning, known=KnownConversation())], "s")
        for body in (others, first)
    }
    assert keys == {cache_key([replace(PART, body=body)], "s") for body in (others, first)}
    assert len(keys) == 2
