"""What each form of service is sent, and that only what is exactly a verdict counts as one."""

from collections.abc import Iterator
from typing import Any

import pytest
from app.guards.client import check_replacements
from app.guards.presidio import make_kind, read_spans, write_analysis
from app.guards.services import SERVICES
from app.guards.verdicts import GuardError, Pass, Question, Reject, Replace, TextPart, Verdict, cut_category, cut_reason
from hypothesis import given
from hypothesis import strategies as st

from tests.each_case import each_case

Json = dict[str, Any]
TEXT = TextPart("messages[0].content[0]", "user", "text", "A zebra.")
RESULT = TextPart("messages[1].content[0]", "tool", "result", "ok", "B", "ls", "call_1")
CALL = TextPart("messages[2].content[0]", "assistant", "arguments", '{"a":1}', "C", "ls", "call_2")
ASKED = Question("request", (TEXT, CALL), "m", "req-1", "chat-1", "session", "/v1/chat", "app", "team")
REPLY = Question("reply", (TEXT, CALL), "m")


def read(api: str, answer: Any, question: Question = ASKED, **params: Any) -> Verdict:
    return SERVICES[api].read(answer, question, params)


def test_litellm_is_sent_texts_and_calls_by_themselves() -> None:
    service = SERVICES["litellm"]
    body = service.write(ASKED, "house", {"threshold": 1})
    assert service.make_url("http://h/", ASKED) == "http://h/beta/litellm_basic_guardrail_api"
    assert (
        service.make_url("http://h/beta/litellm_basic_guardrail_api", ASKED)
        == "http://h/beta/litellm_basic_guardrail_api"
    )
    assert (body["input_type"], body["texts"]) == ("request", ["A zebra."])
    assert body["tool_calls"][0]["function"] == {"name": "ls", "arguments": '{"a":1}'}
    assert [message["role"] for message in body["structured_messages"]] == ["user", "assistant"]
    assert (body["litellm_call_id"], body["litellm_trace_id"]) == ("chat-1", "session")
    assert body["request_data"]["user_api_key_alias"] == "app"
    assert body["additional_provider_specific_params"] == {"threshold": 1}
    assert "structured_messages" not in service.write(REPLY, "house", {})


def test_agentgateway_is_sent_one_message_for_each_part() -> None:
    service = SERVICES["agentgateway"]
    question = Question("request", (TEXT, RESULT), "m")
    assert service.make_url("http://h", ASKED) == "http://h/request"
    assert service.make_url("http://h", REPLY) == "http://h/response"
    assert [one["role"] for one in service.write(question, "", {})["body"]["messages"]] == ["user", "tool"]
    assert service.write(REPLY, "", {})["body"]["choices"][1] == {
        "message": {"role": "assistant", "content": '{"a":1}'}
    }


def test_the_own_form_names_places_and_groups() -> None:
    body = SERVICES["parley"].write(ASKED, "house", {"a": 1})
    assert (body["version"], body["phase"], body["guard"], body["params"]) == (1, "request", "house", {"a": 1})
    assert body["parts"][1] == {
        **{"id": CALL.id, "role": "assistant", "kind": "arguments", "text": '{"a":1}', "name": "ls", "group": "C"}
    }
    assert "group" not in SERVICES["parley"].write(REPLY, "house", {})["parts"][0]


SENT_CALL: Json = {"id": "call_2", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
VERDICTS: list[tuple[str, Json, Verdict]] = [
    ("litellm", {"action": "NONE"}, Pass()),
    ("litellm", {"action": "NONE", "stream_holdback_chars": [6]}, Pass(6)),
    ("litellm", {"action": "NONE", "stream_holdback_chars": 7, "texts": ["x", "y"]}, Pass(7)),
    ("litellm", {"action": "BLOCKED", "blocked_reason": "no"}, Reject("no")),
    ("litellm", {"action": "BLOCKED"}, Reject("no reason was given")),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["A ***."]}, Replace({TEXT.id: "A ***."})),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["A zebra."]}, Pass()),
    (
        "litellm",
        {
            "action": "GUARDRAIL_INTERVENED",
            "texts": ["A zebra."],
            "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}],
        },
        Replace({CALL.id: "{}"}),
    ),
    (
        "litellm",
        {
            "action": "GUARDRAIL_INTERVENED",
            "texts": ["A ***."],
            "structured_messages": [
                {"role": "user", "content": "A zebra.", "name": None, "tool_calls": None},
                {"role": "assistant", "content": None, "tool_calls": [SENT_CALL], "refusal": None},
            ],
        },
        Replace({TEXT.id: "A ***."}),
    ),
    ("agentgateway", {"action": {}}, Pass()),
    ("agentgateway", {"action": {"reason": "fine"}}, Pass()),
    ("agentgateway", {"action": {"pass": {}}}, Pass()),
    ("agentgateway", {"action": {"body": "no", "status_code": 429}}, Reject("no")),
    ("agentgateway", {"action": {"reject": {"body": "no", "status_code": 403}}}, Reject("no")),
    (
        "agentgateway",
        {"action": {"body": {"messages": [{"role": "user", "content": "A ***."}, {"content": '{"a":1}'}]}}},
        Replace({TEXT.id: "A ***."}),
    ),
    (
        "agentgateway",
        {"action": {"mask": {"body": {"messages": [{"content": "A zebra."}, {"content": '{"a":1}'}]}}}},
        Pass(),
    ),
    ("parley", {"verdict": "pass"}, Pass()),
    ("parley", {"verdict": "replace", "parts": {TEXT.id: "A ***."}}, Replace({TEXT.id: "A ***."})),
    (
        "parley",
        {"verdict": "reject", "reason": "no", "category": "c", "parts": [CALL.id]},
        Reject("no", "c", (CALL.id,)),
    ),
    ("parley", {"verdict": "reject", "reason": "no", "parts": []}, Reject("no")),
    ("parley", {"verdict": "reject", "reason": "no", "parts": [{}]}, Reject("no")),
    ("parley", {"verdict": "reject", "reason": "no", "parts": [CALL.id, "other"]}, Reject("no")),
    ("agentgateway", {"action": {"reject": "no"}}, Reject("no")),
    ("agentgateway", {"action": {"reject": None}}, Reject("no reason was given")),
    ("litellm", {"action": "BLOCKED", "texts": 1, "stream_holdback_chars": "x"}, Reject("no reason was given")),
    (
        "moderation",
        {"results": [{"flagged": True, "category_scores": {"hate": "high"}}, {"flagged": False}]},
        Reject("flagged", None, (TEXT.id,)),
    ),
    ("parley", {"verdict": "reject"}, Reject("no reason was given")),
    ("moderation", {"results": [{"flagged": False}, {"flagged": False}]}, Pass()),
    (
        "moderation",
        {"results": [{"flagged": False}, {"flagged": True, "category_scores": {"hate": 0.1, "violence": 0.9}}]},
        Reject("violence", "violence", (CALL.id,)),
    ),
]


@each_case("api, answer, verdict", VERDICTS)
def test_a_verdict_is_read(api: str, answer: Json, verdict: Verdict) -> None:
    assert read(api, answer) == verdict


def test_litellm_need_not_send_texts_back_if_it_got_none() -> None:
    calls = [{"function": {"name": "ls", "arguments": "{}"}}]
    question = Question("reply", (CALL,), "m")
    some: list[Json] = [{}, {"texts": None}, {"texts": []}]
    for more in some:
        answer = {"action": "GUARDRAIL_INTERVENED", "tool_calls": calls, **more}
        assert read("litellm", answer, question) == Replace({CALL.id: "{}"})


NO_ANSWERS: list[Any] = [None, [], "pass", {}, {"error": "x"}]
NO_ACTIONS: list[Any] = [None, "none", "ALLOW", True, []]
FAILURES: list[tuple[str, Any]] = [
    *[(api, answer) for api in SERVICES for answer in NO_ANSWERS],
    *[("litellm", {"action": action}) for action in NO_ACTIONS],
    ("litellm", {"texts": ["A zebra."]}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED"}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["a", "b"]}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": [1]}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["a"], "images": ["x"]}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["a"], "structured_messages": []}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["a"], "tool_calls": [{}, {}]}),
    ("litellm", {"action": "GUARDRAIL_INTERVENED", "texts": ["a"], "tool_calls": [{"function": {"name": "rm"}}]}),
    ("agentgateway", {"action": {"allow": {}}}),
    ("agentgateway", {"action": {"pass": None}}),
    ("agentgateway", {"action": {"status_code": 200}}),
    ("agentgateway", {"action": {"body": {"messages": []}}}),
    ("agentgateway", {"action": {"body": {"messages": [{"content": None}, {"content": "x"}]}}}),
    ("agentgateway", {"action": {"mask": {}}}),
    ("agentgateway", {"action": {"body": 1}}),
    ("parley", {"verdict": "allow"}),
    ("parley", {"verdict": "replace"}),
    ("parley", {"verdict": "replace", "parts": {"other": "x"}}),
    ("moderation", {"results": [{"flagged": False}]}),
    ("moderation", {"results": [{"flagged": "no"}, {"flagged": False}]}),
    ("moderation", {"results": [{"flagged": False, "category_scores": [0.9]}, {"flagged": False}]}),
    ("moderation", {"results": [{"flagged": False, "category_scores": {"hate": "0.9"}}, {"flagged": False}]}),
    ("moderation", {"results": [{"flagged": False, "category_scores": {"hate": True}}, {"flagged": False}]}),
]


@each_case("api, answer", FAILURES)
def test_anything_else_is_a_failure(api: str, answer: Any) -> None:
    with pytest.raises(GuardError):
        read(api, answer)


def test_a_threshold_refuses_what_is_not_flagged() -> None:
    answer = {"results": [{"flagged": False, "category_scores": {"hate": 0.4}}, {"flagged": False}]}
    assert read("moderation", answer, thresholds={"hate": 0.3}) == Reject("hate", "hate", (TEXT.id,))
    assert read("moderation", answer, thresholds={"hate": 0.5}) == Pass()
    with pytest.raises(GuardError, match="violense"):
        read("moderation", answer, thresholds={"violense": 0.5})
    service = SERVICES["moderation"]
    assert service.write(ASKED, "", {})["input"] == ["A zebra.", '{"a":1}']
    assert {service.make_url(base, ASKED) for base in ("http://h", "http://h/v1", "http://h/v1/moderations")} == {
        "http://h/v1/moderations"
    }


def test_presidio_finds_spans_of_code_points() -> None:
    assert write_analysis("x", {"language": "de"}) == {"language": "de", "text": "x"}
    answer = [{"start": 2, "end": 5, "entity_type": "PERSON"}, {"start": 0, "end": 1, "entity_type": "CREDIT_CARD"}]
    assert read_spans([*answer, *answer], "🙂 Ann") == [(2, 5, "PERSON"), (0, 1, "CARD")]
    assert (make_kind("US_DRIVER_LICENSE"), make_kind("1"), make_kind("a-b")) == ("US_DRIVER_LICENS", "VALUE", "A_B")


@each_case(
    "answer",
    [None, {}, [1], [{"start": 0, "end": 9, "entity_type": "A"}], [{"start": True, "end": 1, "entity_type": "A"}]],
)
def test_a_span_outside_of_the_text_is_a_failure(answer: Any) -> None:
    with pytest.raises(GuardError):
        read_spans(answer, "Ann")


def test_a_reason_is_one_line_of_at_most_500_characters() -> None:
    assert cut_reason("a\n b") == "a b"
    assert len(cut_reason("x" * 900)) == 500
    assert cut_reason("\x1b[31mred\u202e \ud800\x00end") == "[31mred end"


def test_a_category_is_a_short_line() -> None:
    assert [cut_category(given) for given in (None, "a\nb", "x" * 90, "\x00")] == [None, "a b", "x" * 63 + "…", None]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


PASSING_WORDS = {
    "litellm": ("action", ("NONE", "GUARDRAIL_INTERVENED")),
    "parley": ("verdict", ("pass", "replace")),
}


def list_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from list_places(item, (*place, name))


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    first, *rest = place
    if isinstance(value, dict):
        return {**value, first: put(value[first], tuple(rest), new)}
    return [put(item, tuple(rest), new) if number == first else item for number, item in enumerate(value)]


@pytest.mark.parametrize("number", range(len(VERDICTS)))
@given(st.data())
def test_an_answer_with_anything_in_one_place_is_a_verdict_or_a_failure(number: int, data: st.DataObject) -> None:
    api, answer, _ = VERDICTS[number]
    place = data.draw(st.sampled_from([*list_places(answer)]))
    changed = put(answer, place, data.draw(ANY_JSON))
    try:
        verdict = check_replacements(read(api, changed), ASKED)
    except (GuardError, OverflowError):  # the client takes any exception as a failure
        return
    ids = {part.id for part in ASKED.parts}
    if isinstance(verdict, Reject):
        assert isinstance(verdict.reason, str)
        assert isinstance(verdict.category, str | None)
        assert verdict.ids is None or (verdict.ids and ids.issuperset(verdict.ids))
    elif isinstance(verdict, Replace):
        assert ids.issuperset(verdict.texts)
        assert all(isinstance(text, str) for text in verdict.texts.values())
        assert isinstance(verdict.holdback, int) and verdict.holdback >= 0
    elif api in PASSING_WORDS:
        name, words = PASSING_WORDS[api]
        assert changed[name] in words
