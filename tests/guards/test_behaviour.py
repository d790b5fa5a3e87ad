"""What guards do with requests and replies beside the golden cases: groups, memory, failures, cut replies."""

import base64
import json
from typing import Any

import pytest
from app.access.key_ring import hash_key

from tests.each_case import each_case
from tests.guards.golden_runner import Json, Run, run_case
from tests.guards.played_cases import CALL, CHAT, FINE, LS, REJECT, asked, history, play, sent_texts, user


def test_the_own_form_gets_all_groups_at_once_and_names_what_it_refuses() -> None:
    refused = {**REJECT, "parts": ["messages[2].content[0].content[0]"]}
    run = play({"house": {"phases": ["request"]}}, [history("a zebra")], answers=[{"if": "zebra", "body": refused}])
    body = asked(run)[0]
    assert [(part["id"], part["kind"], part["group"]) for part in body["parts"]] == [
        ("messages[0].content[0]", "text", "C"),
        ("messages[1].content[0]", "arguments", "C"),
        ("messages[2].content[0].content[0]", "result", "B"),
    ]
    assert len(asked(run)) == 1
    assert sent_texts(run)[-1] == "[withheld by policy house: zebra]"


def test_without_names_groups_and_then_parts_are_asked_again() -> None:
    body = history("ok", "A zebra")
    body["messages"] += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on"}]
    run = play({"house": {"phases": ["request"]}}, [body], answers=[{"if": "zebra", "body": REJECT}])
    assert sent_texts(run) == ["[withheld by policy house: zebra]", "ok", "Hm.", "Go on"]
    assert [len(one["parts"]) for one in asked(run)] == [5, 1, 4, 1, 1, 1, 1]


def test_what_was_refused_is_not_asked_again_and_does_not_block_the_session() -> None:
    later = {
        "messages": [
            *user("A zebra")["messages"],
            {"role": "assistant", "content": "I cannot."},
            *user("Then a horse")["messages"],
        ]
    }
    run = play(
        {"house": {"phases": ["request"]}},
        [user("A zebra"), user("A zebra"), later],
        [FINE],
        [{"if": "zebra", "body": REJECT}],
    )
    assert [client.answer.status for client in run.clients] == [400, 400, 200]
    assert sent_texts(run) == ["[withheld by policy house: zebra]", "I cannot.", "Then a horse"]
    assert [[part["text"] for part in one["parts"]] for one in asked(run)] == [
        *(["A zebra"], ["I cannot.", "Then a horse"])
    ]


@pytest.mark.parametrize("guard", ["detectors", "names", "no names", "litellm"])
def test_a_session_goes_on_behind_a_refusal_for_which_its_client_keeps_no_answer(guard: str) -> None:
    texts = ["Where you are: /tmp", "A zebra runs"]
    row: Json = {"phases": ["request"]}
    refused: Json = REJECT
    if guard == "detectors":
        row = {"detectors": ["word"], "action": "reject"}
    elif guard == "names":
        refused = {**REJECT, "parts": ["messages[1].content[0]"]}
    elif guard == "litellm":
        row["api"], refused = "litellm", {"action": "BLOCKED", "blocked_reason": "zebra"}
    passed: Json = {"action": "NONE"} if guard == "litellm" else {"verdict": "pass"}
    run = play(
        {"house": row},
        [user(*texts), user(*texts, "Then a horse"), user(*texts, "Then a horse", "A zebra runs")],
        [FINE],
        [{"if": "zebra", "body": refused}],
        passed,
        masking={"patterns": {"word": "zebra"}},
    )
    assert [client.answer.status for client in run.clients] == [400, 200, 400]
    reason = "it has a value of the kind WORD" if guard == "detectors" else "zebra"
    assert sent_texts(run) == ["Where you are: /tmp", f"[withheld by policy house: {reason}]", "Then a horse"]


@pytest.mark.parametrize("guard", ["detectors", "names", "no names"])
def test_a_session_goes_on_if_its_client_adds_texts_to_the_refused_message(guard: str) -> None:
    def ask(*texts: str) -> Json:
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]}

    refused: Json = {**REJECT, "parts": ["messages[0].content[0]"]} if guard == "names" else REJECT
    detectors = {"detectors": ["word"], "action": "reject"}
    first = ("A zebra runs", "A reminder")
    run = play(
        {"house": detectors if guard == "detectors" else {"phases": ["request"]}},
        [ask(*first), ask(*first), ask(*first, "Then a horse"), ask(*first, "Then a horse"), ask(*first, "A zebra")],
        [FINE, FINE],
        [{"if": "zebra", "body": refused}],
        masking={"patterns": {"word": "zebra"}},
    )
    assert [client.answer.status for client in run.clients] == [400, 400, 200, 200, 400]
    for sent in map(json.dumps, run.played.sent):
        assert "[withheld by policy house: " in sent and "zebra runs" not in sent and "Then a horse" in sent


def test_a_refused_text_of_a_request_without_a_session_is_refused_again() -> None:
    guards = {"words": {"detectors": ["word"], "action": "reject"}, "house": {"api": "litellm", "phases": ["request"]}}
    given: Json = {
        "config": {
            "guards": {
                name: {"url": "<webhook:house>", **row} if "api" in row else row for name, row in guards.items()
            },
            "masking": {"key": "0" * 64, "patterns": {"word": "zebra"}},
            "models": {"m": {"upstreams": ["s"], "endpoints": ["embeddings"]}},
        },
        "webhooks": {
            "house": {
                "answers": [{"if": "lion", "body": {"action": "BLOCKED", "blocked_reason": "lion"}}],
                "default": {"action": "NONE"},
            }
        },
        "requests": [
            {"path": "/v1/embeddings", "body": {"model": "m", "input": [word, other]}}
            for word in ("A zebra", "A lion")
            for other in ("Hello", "Good day")
        ],
        "upstream": [],
    }
    assert [client.answer.status for client in run_case({"given": given}).clients] == [400] * 4


@pytest.mark.parametrize("stream", [True, False])
def test_the_error_of_a_refused_reply_names_the_policy_and_no_server(stream: bool) -> None:
    given = {
        "config": {"guards": {"house": {"url": "<webhook:house>", "phases": ["reply"]}}},
        "webhooks": {"house": {"answers": [], "default": {**REJECT, "category": "animals"}}},
        "requests": [{"path": "/v1/responses", "body": {"model": "m", "input": "Hi", "stream": stream}}],
        "upstream": [FINE],
    }
    answer = run_case({"given": given}).clients[0].answer
    error = answer.frames[-1]["response"]["error"] if answer.status == 200 else answer.json["error"]
    assert error["policy"] == {"guard": "house", "reason": "zebra", "category": "animals"}
    assert "upstream" not in error
    assert (error["code"], error["retryable"]) == (
        "invalid_prompt" if answer.status == 200 else "content_filter",
        False,
    )
    assert answer.status == (200 if stream else 400)


def test_nothing_is_remembered_if_the_operator_wants_the_whole_conversation() -> None:
    rows = {"house": {"phases": ["request"], "context": "all"}}
    refused = [{"if": "zebra", "body": REJECT}]
    run = play(rows, [user("Hi"), user("Hi"), history("a zebra")], [FINE, FINE], refused)
    assert [client.answer.status for client in run.clients] == [200, 200, 400]
    assert [len(one["parts"]) for one in asked(run)] == [1, 1, 3]
    run = play({"house": {"phases": ["request"], "remember_seconds": 0}}, [user("Hi"), user("Hi")])
    assert len(asked(run)) == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_guard_of_the_whole_conversation_that_fails_is_no_defect(stream: bool) -> None:
    refused = play({"house": {"context": "all"}}, [{**user("Hi"), "stream": stream}], [], default={"verdict": "maybe"})
    assert refused.clients[0].answer.status == 503
    assert refused.clients[0].answer.json["error"]["code"] == "overloaded"
    passing = {"context": "all", "on_failure": "pass", "phases": ["request"]}
    passed = play({"house": passing}, [{**user("Hi"), "stream": stream}], default={"verdict": "maybe"})
    assert passed.clients[0].answer.status == 200
    assert passed.clients[0].answer.headers["x-parley-guards"] == "house=failed"
    assert 'verdict="pass"' not in passed.metrics, "what was not checked has not passed"


def test_a_guard_of_the_whole_conversation_may_not_break_arguments() -> None:
    replaced = {"verdict": "replace", "parts": {"messages[1].content[0]": "no JSON"}}
    run = play({"house": {"context": "all", "phases": ["request"]}}, [history("ok")], [], default=replaced)
    assert (run.clients[0].answer.status, run.played.sent) == (503, [])


def test_a_guard_that_observes_sees_what_it_would_see() -> None:
    body = {"messages": [*user("Hi")["messages"], {"role": "assistant", "content": "Hm."}, *user("Go on")["messages"]]}
    for context, count in (("new", 0), ("all", 3)):
        run = play({"house": {"context": context, "mode": "observe", "phases": ["request"]}}, [body, body])
        assert [len(one["parts"]) for one in asked(run)] == [3, count][: 1 + bool(count)]


def test_what_was_said_counts_if_the_guard_fails_for_other_parts() -> None:
    rows = {"house": {"api": "litellm", "on_failure": "pass", "phases": ["request"], "timeout_seconds": 1}}
    answers = [
        {"if": "zebra", "body": {"action": "BLOCKED", "blocked_reason": "zebra"}},
        {"if": "List files", "body": {"action": "maybe"}},
    ]
    run = play(rows, [history("a zebra")], answers=answers, default={"action": "NONE"})
    assert sent_texts(run) == ["List files", "[withheld by policy house: zebra]"]
    assert run.clients[0].answer.headers["x-parley-guards"] == "house=failed"
    body = history("List files")
    body["messages"].append({"role": "user", "content": "A zebra"})
    for passes in ("pass", "refuse"):
        refused = play(
            {"house": {**rows["house"], "on_failure": passes}}, [body], [], answers, default={"action": "NONE"}
        )
        assert refused.clients[0].answer.status == 400, "it was refused, whatever else was not checked"


def test_a_service_can_see_tools_and_images() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, image]}], "tools": [LS]}
    for api, passed in (("litellm", {"action": "NONE"}), ("parley", {"verdict": "pass"})):
        row = {"api": api, "tools": True, "images": True, "phases": ["request"]}
        run = play({"house": row}, [body, body], default=passed)
        assert len(asked(run)) == 1, "the same definitions are asked about once"
        if api == "litellm":
            assert asked(run)[0]["tools"] == [LS]
            assert asked(run)[0]["images"] == ["https://example.com/a.png"]
            assert asked(run)[0]["texts"] == ["Look"]
        else:
            kinds = [(part["id"], part["kind"]) for part in asked(run)[0]["parts"]]
            assert kinds == [
                *(("tools[0]", "tool"), ("messages[0].content[0]", "text"), ("messages[0].content[1]", "image"))
            ]
    refused = {"if": '"ls"', "body": {**REJECT, "parts": ["tools[0]"]}}
    run = play({"house": {"tools": True}}, [{**user("Hi"), "tools": [LS]}], [], [refused])
    assert (run.clients[0].answer.status, run.played.sent) == (400, [])


def test_a_refused_result_can_refuse_the_request() -> None:
    run = play({"house": {"on_result": "refuse"}}, [history("a zebra")], [], [{"if": "zebra", "body": REJECT}])
    assert run.clients[0].answer.status == 400


def test_a_replaced_text_stays_replaced() -> None:
    replaced = {"verdict": "replace", "parts": {"messages[0].content[0]": "A ***"}}
    later = {
        "messages": [*user("A zebra")["messages"], {"role": "assistant", "content": "Fine."}, *user("More")["messages"]]
    }
    run = play(
        {"house": {"phases": ["request"]}}, [user("A zebra"), later], answers=[{"if": "zebra", "body": replaced}]
    )
    assert [sent_texts(run, 0), sent_texts(run, 1)] == [["A ***"], ["A ***", "Fine.", "More"]]
    assert len(asked(run)) == 2


def test_a_detector_can_refuse_a_text_and_withhold_a_result() -> None:
    rows = {"pii": {"detectors": ["card"], "action": "reject"}}
    run = play(rows, [user("Pay 4111 1111 1111 1111"), history("4111 1111 1111 1111")], [FINE])
    assert run.clients[0].answer.json["error"]["policy"] == {
        **{"guard": "pii", "reason": "it has a value of the kind CARD", "category": "card"}
    }
    assert sent_texts(run)[-1] == "[withheld by policy pii: it has a value of the kind CARD]"
    assert run.clients[1].answer.headers["x-parley-guards"] == "pii=withhold"


def test_a_detector_that_redacts_looks_at_replies_too() -> None:
    rows = {"pii": {"detectors": ["email"], "action": "redact"}}
    reply = {"chunks": [{"content": "Ask bob@exam"}, {"content": "ple.com"}], "finish": "stop"}
    run = play(rows, [{**user("Hi ann@example.com"), "stream": True}], [reply])
    assert sent_texts(run) == ["Hi [EMAIL]"]
    reply_read = run.clients[0].reply
    assert reply_read is not None
    assert reply_read.text == "Ask [EMAIL]"


def test_a_guard_that_sees_originals_is_asked_before_values_are_masked() -> None:
    rows = {"pii": {"detectors": ["email"]}, "house": {"sees": "original"}}
    reply = {"chunks": [{"content": "To [EMAIL_YGDF6NR7]"}], "finish": "stop"}
    run = play(rows, [user("Hi ann@example.com")], [reply])
    assert [part["text"] for one in asked(run) for part in one["parts"]] == ["Hi ann@example.com", "To ann@example.com"]
    assert sent_texts(run) == ["Hi [EMAIL_YGDF6NR7]"]
    assert run.clients[0].answer.json["choices"][0]["message"]["content"] == "To ann@example.com"


def test_reasoning_can_be_withheld_or_left_out() -> None:
    reply = {"chunks": [{"reasoning_content": "Secret."}, {"content": "Fine."}], "finish": "stop"}
    withheld = play(
        {"house": {"phases": ["reply"], "reasoning": "withhold"}}, [{**user("Hi"), "stream": True}], [reply]
    )
    skipped = play({"house": {"phases": ["reply"], "reasoning": "skip"}}, [{**user("Hi"), "stream": True}], [reply])
    for run, reasoning in ((withheld, ""), (skipped, "Secret.")):
        assert [part["text"] for part in asked(run)[0]["parts"]] == ["Fine."]
        assert run.clients[0].reply is not None
        assert (run.clients[0].reply.reasoning, run.clients[0].reply.text) == (reasoning, "Fine.")


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_without_a_verdict_is_not_sent(stream: bool) -> None:
    run = play({"house": {"phases": ["reply"]}}, [{**user("Hi"), "stream": stream}], default={"verdict": "maybe"})
    answer = run.clients[0].answer
    assert b"Fine" not in answer.body
    assert answer.status == (200 if stream else 503)
    assert b'"code":"overloaded"' in answer.body
    passes = play({"house": {"on_failure": "pass"}}, [user("Hi")], default={"verdict": "maybe"})
    assert passes.clients[0].answer.headers["x-parley-guards"] == "house=failed"
    assert b"Fine" in passes.clients[0].answer.body


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_goes_on_without_a_verdict_says_so_and_is_not_known_later(stream: bool) -> None:
    odd, rows = {"if": "Fine", "body": {"verdict": "maybe"}}, {"house": {"on_failure": "pass"}}
    later = {
        "messages": [*user("Hi")["messages"], {"role": "assistant", "content": "Fine."}, *user("More")["messages"]]
    }
    requests = [{**body, "stream": stream} for body in (user("Hi"), user("Hi"), later)]
    run = play(rows, requests, answers=[{**odd, "times": 2}], cache={"url": "memory:"})
    assert len(run.played.sent) == 3, "a reply that nothing has looked at is not stored"
    for client in run.clients[:2]:
        assert b"Fine" in client.answer.body
        assert b"the guard house gave no verdict, and this reply was sent without it" in client.answer.body
    assert b"gave no verdict" not in run.clients[2].answer.body
    texts = [part["text"] for one in asked(run) if one["phase"] == "request" for part in one["parts"]]
    assert texts == ["Hi", "Fine.", "More"]


def test_replaced_arguments_must_be_an_object() -> None:
    reply = {"chunks": [{"tool_calls": [{"index": 0, **CALL}]}], "finish": "tool_calls"}
    body = {**user("Hi"), "tools": [LS], "stream": True}
    for new, calls in (('{"dir":"/tmp"}', [{"name": "ls", "arguments": {"dir": "/tmp"}}]), ("[]", [])):
        answers = {"verdict": "replace", "parts": {"output[0]": new}}
        run = play({"house": {"phases": ["reply"]}}, [body], [reply], default=answers)
        assert run.clients[0].reply is not None
        assert run.clients[0].reply.calls == calls


def test_of_a_reply_that_breaks_nothing_unchecked_is_sent() -> None:
    reply = {"chunks": [{"content": "One. "}, {"content": "Two."}], "finish": "cut"}
    rows = {"house": {"phases": ["reply"], "stream": "window", "window_characters": 20, "overlap_characters": 0}}
    run = play(rows, [{**user("Hi"), "stream": True}], [{**reply, "cut": True}])
    assert b"One" not in run.clients[0].answer.body
    assert asked(run) == []


def test_an_overlap_is_sent_again_and_may_not_change() -> None:
    rows = {"house": {"phases": ["reply"], "stream": "window", "window_characters": 20, "overlap_characters": 6}}
    reply = {"chunks": [{"content": "All is well in part one.\n"}, {"content": "Then more."}], "finish": "stop"}
    run = play(rows, [{**user("Hi"), "stream": True}], [reply])
    assert [part["text"] for one in asked(run) for part in one["parts"]] == [
        *("All is well in part one.\n", " one.\nThen more.")
    ]
    assert [one["final"] for one in asked(run)] == [False, True]
    changed = {"verdict": "replace", "parts": {"output[0]": "x"}}
    run = play(rows, [{**user("Hi"), "stream": True}], [reply], [{"if": "Then", "body": changed}])
    assert b"Then" not in run.clients[0].answer.body
    assert b"overloaded" in run.clients[0].answer.body


@each_case(
    "first, then, expected",
    [
        ("Part 94111111111111111. Yes it is.\n", "So we go on.", "So we go on."),
        ("They are not at home. But Ann\n", "Lee is here.", "[FULL_NAME] is here."),
    ],
)
def test_a_detector_finds_no_value_in_an_overlap_and_the_rest_of_one_behind_it(
    first: str, then: str, expected: str
) -> None:
    rows = {
        "pii": {
            **{"detectors": ["card", "full_name"], "action": "redact", "stream": "window"},
            **{"window_characters": 30, "overlap_characters": 29},
        }
    }
    reply = {"chunks": [{"content": first}, {"content": then}], "finish": "stop"}
    masking = {"patterns": {"full_name": r"Ann\sLee"}}
    run = play(rows, [{**user("Hi"), "stream": True}], [reply], masking=masking)
    assert run.clients[0].reply is not None
    assert run.clients[0].reply.text == first + expected


def test_two_sessions_have_other_placeholders_if_the_operator_wants() -> None:
    rows = {"pii": {"detectors": ["email"]}}
    run = play(rows, [user("ann@example.com a"), user("ann@example.com b")], masking={"scope": "session"})
    first, second = sent_texts(run, 0)[0], sent_texts(run, 1)[0]
    assert first.split()[0] != second.split()[0]


def test_a_notice_says_what_placeholders_are_also_where_none_is() -> None:
    rows = {"pii": {"detectors": ["email"]}}
    run = play(rows, [user("Hi")], masking={"notice": True})
    assert [message["role"] for message in run.played.sent[0]["messages"]] == ["system", "user"]


def test_values_in_arguments_of_calls_mask_back_with_their_escapes() -> None:
    rows = {"pii": {"detectors": ["email"]}}
    body = history("ok", "Mail ann@example.com")
    body["messages"][1]["tool_calls"][0] = {
        **CALL,
        "function": {"name": "ls", "arguments": json.dumps({"to": 'say "ann@example.com"', "ann@example.com": 1})},
    }
    run = play(rows, [body])
    arguments = run.played.sent[0]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": 'say "[EMAIL_YGDF6NR7]"', "[EMAIL_YGDF6NR7]": 1}


def test_the_metrics_and_the_log_say_what_guards_did() -> None:
    rows = {"pii": {"detectors": ["email"]}, "house": {"phases": ["request"]}}
    reply = {"chunks": [{"content": "To [EMAIL_YGDF6NR7] or [EMAIL_AAAAAAAA]"}], "finish": "stop"}
    run = play(rows, [user("Hi ann@example.com")], [reply])
    for line in (
        'parley_guard_checks_total{guard="house",phase="request",verdict="pass"} 1.0',
        'parley_guard_checks_total{guard="pii",phase="request",verdict="replace"} 1.0',
        'parley_guard_seconds_count{guard="house",phase="request"} 1.0',
        'parley_masked_values_total{kind="EMAIL"} 1.0',
        'parley_placeholders_total{outcome="restored"} 1.0',
        'parley_placeholders_total{outcome="unknown"} 1.0',
    ):
        assert line in run.metrics, line
    assert run.clients[0].answer.headers["x-parley-guards"] == "pii=masked:1 house=pass"


MESSAGES_SERVER: Json = {"upstreams": {"s": {"api": "messages"}}}
BLOCKS: Json = {"blocks": [{"type": "text", "text": "Fine."}], "stop_reason": "end_turn"}


def ask_messages(text: str, answers: list[Json], **guard: Any) -> Run:
    body = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": text}],
        "a_new_field": 1,
    }
    given = {
        "config": {"guards": {"house": {"url": "<webhook:house>", **guard}}, **MESSAGES_SERVER},
        "webhooks": {"house": {"answers": answers, "default": {"verdict": "pass"}}},
        "requests": [{"path": "/v1/messages", "body": body}],
        "upstream": [BLOCKS],
    }
    return run_case({"given": given})


def test_a_clients_own_body_is_sent_if_guards_let_it_pass_and_look_at_no_reply() -> None:
    passed = ask_messages("Hi", [], phases=["request"])
    assert passed.played.sent[0]["a_new_field"] == 1
    replaced = {"if": "zebra", "body": {"verdict": "replace", "parts": {"messages[0].content[0]": "A ***"}}}
    for run in (ask_messages("A zebra", [replaced], phases=["request"]), ask_messages("Hi", [], phases=["reply"])):
        assert "a_new_field" not in run.played.sent[0]
        assert run.clients[0].reply is not None
        assert (run.clients[0].reply.text, run.clients[0].reply.end) == ("Fine.", "end_turn")
    observed = ask_messages("A zebra", [replaced], mode="observe")
    assert observed.played.sent[0]["a_new_field"] == 1


def test_a_detector_that_observes_changes_nothing() -> None:
    rows = {"pii": {"detectors": ["email"], "mode": "observe"}}
    run = play(rows, [user("Hi ann@example.com")], masking={"notice": True})
    assert sent_texts(run) == ["Hi ann@example.com"]
    assert run.clients[0].answer.headers["x-parley-guards"] == "pii=found:1"


def test_services_are_not_asked_about_the_notice() -> None:
    rows = {"pii": {"detectors": ["email"]}, "house": {"phases": ["request"]}}
    run = play(rows, [user("Hi ann@example.com")], masking={"notice": True})
    assert [part["text"] for part in asked(run)[0]["parts"]] == ["Hi [EMAIL_YGDF6NR7]"]


def ask_about_file(text: str, *later: Json) -> Json:
    data = "data:text/plain;base64," + base64.b64encode(text.encode()).decode()
    part = {"type": "file", "file": {"filename": "of ann@example.com.txt", "file_data": data}}
    first = {"role": "user", "content": [part, {"type": "text", "text": "What is in it?"}]}
    return {"messages": [first, *later]}


def test_the_text_of_a_file_is_masked_and_judged() -> None:
    rows = {"pii": {"detectors": ["email"]}, "house": {"phases": ["request"]}}
    refused = [{"if": "zebra", "body": REJECT}]
    later: list[Json] = [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Go on"}]
    run = play(
        rows,
        [ask_about_file("Mail ann@example.com"), ask_about_file("a zebra"), ask_about_file("a zebra", *later)],
        [FINE, FINE],
        refused,
    )
    assert [client.answer.status for client in run.clients] == [200, 400, 200]
    whole = json.dumps(run.played.sent)
    assert "Mail [EMAIL_YGDF6NR7]" in whole
    assert "zebra" not in whole.replace("refused this: zebra", "")
    assert "ann@example.com" not in whole
    assert {part["kind"] for one in asked(run) for part in one["parts"] if "Mail" in part["text"]} == {"file"}


def test_what_an_answer_quotes_of_a_file_is_masked_when_it_comes_back() -> None:
    body = ask_about_file("Mail ann@example.com", {"role": "user", "content": "x"})
    body["messages"][1:] = [
        {"role": "assistant", "content": "Of ann@example.com."},
        {"role": "user", "content": "Go on"},
    ]
    body["messages"].insert(0, {"role": "assistant", "content": "I am ann@example.com."})
    run = play(
        {"pii": {"detectors": ["email"]}}, [body], [{"chunks": [{"content": "[EMAIL_YGDF6NR7]"}], "finish": "stop"}]
    )
    contents = [message["content"] for message in run.played.sent[0]["messages"]]
    assert contents[0] == "I am ann@example.com.", "it stands before the file"
    assert contents[2:] == ["Of [EMAIL_YGDF6NR7].", "Go on"]
    assert b"ann@example.com" in run.clients[0].answer.body


@pytest.mark.parametrize("api", ["litellm", "parley"])
def test_a_service_is_told_the_end_user_of_a_key(api: str) -> None:
    verdict = {"action": "NONE"} if api == "litellm" else {"verdict": "pass"}
    keys = {"app": {"sha256": hash_key("app"), "users": "user"}}
    given = {
        "config": {"guards": {"house": {"url": "<webhook:house>", "api": api}}, "keys": keys},
        "webhooks": {"house": {"answers": [], "default": verdict}},
        "requests": [
            {"path": CHAT, "headers": {"authorization": "Bearer app"}, "body": {"model": "m", **user("Hi"), **more}}
            for more in ({"user": "ann"}, {})
        ],
        "upstream": [FINE, FINE],
    }
    calls = [call["body"] for call in run_case({"given": given}).played.asked["house"]]
    if api == "litellm":
        assert [call["request_data"]["user_api_key_end_user_id"] for call in calls] == ["ann", "ann", None, None]
    else:
        assert [call["user"] for call in calls] == ["ann", "ann", "", ""]


def test_the_details_of_a_failure_do_not_pass_by_a_guard() -> None:
    failed = {"error": {"message": "no call", "code": "tool_use_failed", "failed_generation": "a zebra"}}
    for rows, shown in (({"house": {"phases": ["reply"]}}, False), ({"house": {"phases": ["request"]}}, True)):
        run = play(rows, [{**user("Hi"), "stream": False}], [{"status": 400, "body": failed}])
        assert (b"zebra" in run.clients[0].answer.body) is shown, run.clients[0].answer.body


@each_case(
    "action, shown",
    [("reject", "[withheld by policy words: it has a value of the kind WORD]"), ("redact", "no [WORD]")],
)
def test_detectors_look_at_the_words_of_a_failure(action: str, shown: str) -> None:
    failed = {"error": {"message": "no zebra", "type": "server_error"}}
    rows = {"words": {"detectors": ["word"], "action": action}}
    for stream in (True, False):
        upstream = [{"status": 400, "body": failed}]
        run = play(rows, [{**user("Hi"), "stream": stream}], upstream, masking={"patterns": {"word": "zebra"}})
        assert shown in run.clients[0].answer.body.decode()
        assert b"zebra" not in run.clients[0].answer.body


def test_a_service_gets_the_trace_of_its_request() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    given = {
        "config": {"guards": {"house": {"url": "<webhook:house>", "phases": ["request"]}}},
        "webhooks": {"house": {"answers": [], "default": {"verdict": "pass"}}},
        "requests": [{"path": CHAT, "headers": {"traceparent": parent}, "body": {"model": "m", **user("Hi")}}],
        "upstream": [FINE],
    }
    run = run_case({"given": given})
    assert run.played.asked["house"][0]["headers"]["traceparent"].startswith(parent[:35])


SPAN: Json = {"start": 0, "end": 3, "entity_type": "PERSON", "score": 0.9}


def test_presidio_gets_no_headers_of_other_guards_and_the_trace() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    rows = {
        "names": {"url": "<webhook:presidio>", "api": "presidio"},
        "house": {"url": "<webhook:house>", "phases": ["request"], "forward_headers": ["x-team"]},
    }
    given = {
        "config": {"guards": rows},
        "webhooks": {
            "house": {"answers": [], "default": {"verdict": "pass"}},
            "presidio": {"answers": [], "default": []},
        },
        "requests": [
            {"path": CHAT, "headers": {"traceparent": parent, "x-team": "red"}, "body": {"model": "m", **user("Hi")}}
        ],
        "upstream": [FINE],
    }
    run = run_case({"given": given})
    presidio, house = run.played.asked["presidio"][0]["headers"], run.played.asked["house"][0]["headers"]
    assert ("x-team" in presidio, house["x-team"]) == (False, "red")
    assert presidio["traceparent"].startswith(parent[:35])


def test_presidio_gets_no_value_that_is_masked_and_its_places_count_in_what_it_got() -> None:
    text, shown = "🙂 ann@example.com is Ann Lee.", "🙂 [EMAIL_YGDF6NR7] is Ann Lee."
    spans = [{"start": shown.index(part), "end": shown.index(part) + len(part)} for part in ("EMAIL_YG", "Ann Lee")]
    body = [{**span, "entity_type": "PERSON", "score": 0.9} for span in spans]
    rows: Json = {"pii": {"detectors": ["email"]}, "names": {"api": "presidio"}}
    reply = {"chunks": [{"content": "[EMAIL_YGDF6NR7], [PERSON_MLTYGLO3]"}], "finish": "stop"}
    run = play(rows, [user(text)], [reply], answers=[{"if": "Ann", "body": body}], default={})
    assert [one["text"] for one in asked(run)] == [shown]
    assert sent_texts(run) == ["🙂 [EMAIL_YGDF6NR7] is [PERSON_MLTYGLO3]."]
    assert run.clients[0].reply is not None
    assert run.clients[0].reply.text == "ann@example.com, Ann Lee"
    rows["names"]["sees"] = "original"
    run = play(rows, [user(text)], answers=[{"if": "Ann", "body": []}], default={})
    assert [one["text"] for one in asked(run)] == [text]


def test_presidio_gets_a_result_in_json_without_its_escapes() -> None:
    text = json.dumps({"a": "ä", "who": "Müller", "to": "ann@example.com"}).replace("@", "\\u0040")
    shown = '{"a": "ä", "who": "Müller", "to": "[EMAIL_YGDF6NR7]"}'
    start = shown.index("Müller")
    spans = [{"start": start, "end": start + 6, "entity_type": "PERSON", "score": 0.9}]
    rows: Json = {"pii": {"detectors": ["email"]}, "names": {"api": "presidio"}}
    reply = {"chunks": [{"content": "[EMAIL_YGDF6NR7]"}], "finish": "stop"}
    answers: list[Json] = [{"if": "who", "body": spans}, {"if": "List", "body": []}]
    run = play(rows, [history(text)], [reply], answers=answers)
    assert shown in [one["text"] for one in asked(run)]
    sent = json.loads(sent_texts(run)[-1])
    assert (sent["a"], sent["to"], sent["who"][:8]) == ("ä", "[EMAIL_YGDF6NR7]", "[PERSON_")
    assert run.clients[0].reply is not None and run.clients[0].reply.text == "ann@example.com"
    run = play({"names": {"api": "presidio"}}, [history(text)], answers=answers)
    assert "Müller" in str(asked(run)) and "ller" not in sent_texts(run)[-1]


def test_what_presidio_found_is_masked_if_it_fails_for_other_texts() -> None:
    rows = {"names": {"api": "presidio", "on_failure": "pass"}}
    answers: list[Json] = [{"if": "Ann", "body": [SPAN]}, {"if": "Bob", "body": {"error": "x"}}]
    run = play(rows, [user("Ann is here", "Bob is not")], answers=answers, default={})
    assert sent_texts(run)[1:] == ["Bob is not"]
    assert sent_texts(run)[0].startswith("[PERSON_")
    assert run.clients[0].answer.headers["x-parley-guards"] == "names=failed"
    assert 'verdict="failed"} 1.0' in run.metrics
    assert 'verdict="pass"' not in run.metrics
    assert 'verdict="replace"' not in run.metrics


@pytest.mark.parametrize("action", ["mask", "redact", "reject"])
def test_a_count_of_tokens_sends_nothing_in_which_presidio_could_find_values(action: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Ann is here"}]}
    given = {
        "config": {
            "guards": {"names": {"url": "<webhook:house>", "api": "presidio", "action": action}},
            **MESSAGES_SERVER,
        },
        "webhooks": {"house": {"answers": [], "default": [SPAN]}},
        "requests": [
            {"path": "/v1/messages/count_tokens", "body": body},
            {"path": "/v1/messages", "body": {**body, "max_tokens": 9}},
        ],
        "upstream": [BLOCKS],
    }
    run = run_case({"given": given})
    assert run.clients[0].answer.status == 200
    assert "Ann" not in json.dumps(run.played.sent + run.played.counted)
    assert run.clients[1].answer.status == (400 if action == "reject" else 200)


def test_values_behind_escapes_of_arguments_are_found_in_replies() -> None:
    arguments = '{"to": "ann\\u0040example.com"}'
    delta = {"tool_calls": [{**CALL, "index": 0, "function": {"name": "ls", "arguments": arguments}}]}
    for action, status in (("reject", "content_filter"), ("redact", "tool_calls")):
        rows = {"pii": {"detectors": ["email"], "action": action}}
        run = play(rows, [{**user("Hi"), "tools": [LS]}], [{"chunks": [delta], "finish": "tool_calls"}])
        reply = run.clients[0].reply
        assert reply is not None
        assert reply.end == status
        assert "example.com" not in run.clients[0].answer.body.decode()


def test_a_service_sees_what_a_model_reads_beside_the_messages() -> None:
    documents = [{"title": "Notes", "text": "Feed the zebra"}]
    refused = play(
        {"house": {"phases": ["request"]}},
        [{**user("Hi"), "documents": documents}],
        [],
        [{"if": "zebra", "body": REJECT}],
    )
    assert (refused.clients[0].answer.status, refused.played.sent) == (400, [])
    new = {"if": "Feed", "body": {"verdict": "replace", "parts": {"messages[0].content[1]": "Feed it"}}}
    body = {**user("Hi"), "documents": documents}
    run = play({"house": {"phases": ["request"]}}, [body, body], answers=[new])
    assert [sent["documents"] for sent in run.played.sent] == [[{"title": "Notes", "text": "Feed it"}]] * 2
    assert len(asked(run)) == 2, "what a service has said is remembered"


@each_case("escaped", ["z\\u0065bra", "\\u007a\\u0065\\u0062ra", "zebra"])
def test_a_service_sees_what_the_escapes_of_arguments_stand_for(escaped: str) -> None:
    call = {**CALL, "function": {"name": "ls", "arguments": f'{{"dir": "a {escaped}", "n": 1.0}}'}}
    body = history("ok")
    body["messages"][1]["tool_calls"][0] = call
    reply = {"chunks": [{"tool_calls": [{**call, "index": 0}]}], "finish": "tool_calls"}
    run = play({"house": {}}, [body, {**user("Hi"), "tools": [LS]}], [FINE, reply], [{"if": "zebra", "body": REJECT}])
    seen = [part["text"] for one in asked(run) for part in one["parts"] if part["kind"] == "arguments"]
    assert set(seen) == {'{"dir": "a zebra", "n": 1.0}'}
    assert f"a {escaped}" not in str(run.played.sent[0]["messages"][1])
    refused = run.clients[1].reply
    assert refused is not None and refused.end == "content_filter"


def test_a_name_that_stands_twice_in_arguments_is_not_taken_as_known() -> None:
    bodies = [history("ok"), history("ok")]
    twice = {"name": "ls", "arguments": '{"dir":"a zebra","dir":"/"}'}
    bodies[1]["messages"][1]["tool_calls"] = [{**CALL, "function": twice}]
    run = play({"house": {"phases": ["request"]}}, bodies, answers=[{"if": "zebra", "body": REJECT}])
    assert "a zebra" not in json.dumps(run.played.sent)


def replace_horse(new: str, id_: str) -> Json:
    return {"if": "horse", "body": {"verdict": "replace", "parts": {id_: f"A {new}"}}}


def test_what_a_service_puts_into_a_request_is_searched_by_detectors() -> None:
    pii = {"detectors": ["email"]}
    first = "messages[0].content[0]"
    run = play({"pii": pii, "house": {}}, [user("A horse")], answers=[replace_horse("ann@example.com", first)])
    assert sent_texts(run) == ["A [EMAIL_YGDF6NR7]"]
    rows = {"words": {"detectors": ["word"], "action": "reject"}, "house": {"phases": ["request"]}}
    masking = {"patterns": {"word": "zebra"}}
    run = play(rows, [user("A horse")], [], [replace_horse("zebra", first)], masking=masking)
    assert (run.clients[0].answer.status, run.played.sent) == (400, [])
    result = "messages[2].content[0].content[0]"
    run = play(rows, [history("A horse")], answers=[replace_horse("zebra", result)], masking=masking)
    assert sent_texts(run)[-1] == "[withheld by policy words: it has a value of the kind WORD]"
    documents = {**user("Hi"), "documents": ["A horse"]}
    run = play(rows, [documents], [], [replace_horse("zebra", first)], masking=masking)
    assert (run.clients[0].answer.status, run.played.sent) == (400, [])


@pytest.mark.parametrize(("action", "text"), [("reject", ""), ("redact", "A [WORD]")])
def test_what_a_service_puts_into_a_reply_is_searched_by_detectors(action: str, text: str) -> None:
    rows = {"words": {"detectors": ["word"], "action": action}, "house": {"phases": ["reply"]}}
    run = play(
        rows,
        [user("Hi")],
        [{"chunks": [{"content": "A horse"}], "finish": "stop"}],
        [replace_horse("zebra", "output[0]")],
        masking={"patterns": {"word": "zebra"}},
    )
    reply = run.clients[0].reply
    assert reply is not None
    assert (reply.text, bool(reply.refusal), "zebra" in str(run.clients[0].answer.body)) == (text, not text, False)


@pytest.mark.parametrize("context", ["new", "all"])
def test_a_count_of_tokens_sends_only_what_a_service_has_let_pass(context: str) -> None:
    bodies: list[Json] = [user("A zebra"), user("Hi"), user("Hi"), {**user("Hi"), "system": "A zebra"}]
    count, ask = "/v1/messages/count_tokens", "/v1/messages"
    given = {
        "config": {
            "guards": {"house": {"url": "<webhook:house>", "phases": ["request"], "context": context}},
            **MESSAGES_SERVER,
        },
        "webhooks": {"house": {"answers": [{"if": "zebra", "body": REJECT}], "default": {"verdict": "pass"}}},
        "requests": [
            {"path": path, "body": {"model": "m", **body, **({"max_tokens": 9} if path == ask else {})}}
            for path, body in ((count, bodies[0]), (ask, bodies[1]), (count, bodies[2]), (count, bodies[3]))
        ],
        "upstream": [BLOCKS],
    }
    run = run_case({"given": given})
    assert [client.answer.status for client in run.clients] == [200] * 4
    assert "zebra" not in json.dumps(run.played.counted)
    assert len(run.played.counted) == (context == "new")
    assert len(asked(run)) == 1, "a count asks no service"


@each_case("name", ["system", "chat_template_kwargs", "prefix", "bot_setting", "unknown_field"])
def test_a_service_sees_fields_that_a_server_may_put_before_its_model(name: str) -> None:
    body = {**user("Hi"), name: {"texts": ["Feed the zebra"]}}
    run = play({"house": {"phases": ["request"]}}, [body], [], [{"if": "zebra", "body": REJECT}])
    assert (run.clients[0].answer.status, run.played.sent) == (400, [])


@each_case("guard", [{"phases": ["request"]}, {"detectors": ["email"]}, {"detectors": ["email"], "action": "reject"}])
def test_what_stands_for_the_messages_and_is_no_text_is_refused(guard: Json) -> None:
    for name in ("input_ids", "prompt_token_ids", "input_embeds", "prompt_embeds"):
        run = play({"house": guard}, [{**user("Hi"), name: [1, 2]}], [])
        error = run.clients[0].answer.json["error"]
        assert (error["code"], error["param"], run.played.sent) == ("unsupported", name, [])


def test_options_of_a_server_are_no_texts_for_guards() -> None:
    body = {**user("Hi"), "reasoning_format": "zebra", "stop": ["zebra"], "user": "zebra"}
    body["mcp_servers"] = [{"authorization_token": "zebra"}]
    run = play({"house": {"phases": ["request"]}}, [body], answers=[{"if": "zebra", "body": REJECT}])
    assert (run.clients[0].answer.status, "zebra" in json.dumps(asked(run))) == (200, False)


def test_the_choice_of_a_function_is_sent_as_it_is() -> None:
    masking = {"patterns": {"tool": "ls"}}
    body = {**user("Run ls"), "tools": [LS], "tool_choice": "ls"}
    run = play({"names": {"detectors": ["tool"]}}, [body], masking=masking)
    assert run.played.sent[0]["tool_choice"]["function"]["name"] == "ls"
    assert sent_texts(run)[0].startswith("Run [TOOL_")
