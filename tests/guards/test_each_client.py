"""What guards do, for clients of each format over each path, in front of servers of each API; every reply comes in
pieces of one character."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from app.access.key_ring import hash_key
from chaos_apis import APIS, find_api
from chaos_replies import Answer as Spoken
from typing_extensions import override

from tests.effort import LONG
from tests.guards.each_client import KINDS, Client, Got, Kind
from tests.guards.random_talk import CARD, EMAIL, WORD, SlowStream
from tests.httpx_upstream import HttpxUpstream
from tests.in_process_gateway import Pieces, Running
from tests.tool_loop.fake_servers import FakeServers, make_tool, text_answer

Json = dict[str, Any]
REASON = "an animal"
SENTENCE, WITHHELD = f"The policy house refused this: {REASON}.", f"[withheld by policy house: {REASON}]"
QUOTED = 'q"a\\b"q'
HOUSE: Json = {"url": "http://house.localhost", "api": "litellm"}
PII: Json = {"detectors": ["email", "card", "quoted"]}
WINDOW: Json = {"stream": "window", "window_characters": 20, "overlap_characters": 0}
UNAVAILABLE = (503, 529)
"""In the words of Anthropic's API, 529."""
TEXT_CALLS = "calls in text"
SERVERS: dict[str, tuple[str, Json]] = {
    **{api: (api, {}) for api in APIS},
    TEXT_CALLS: ("chat_completions", {"native_tools": False, "fncall_prompt_type": "nous"}),
}
"""The API of a server, and the profile of its model."""


def speak(content: str = "", reasoning: str = "", **arguments: str) -> Spoken:
    calls = (("call_1", "get_weather", json.dumps(arguments)),) if arguments else ()
    return Spoken(reasoning, content, "", 30, 25, calls)


FINE = speak("Fine.")


def write_calls_as_text(said: Spoken) -> Spoken:
    thought = f"<think>\n{said.reasoning}\n</think>\n\n" if said.reasoning else ""
    calls = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        for _, name, arguments in said.calls
    ]
    return Spoken("", thought + said.content + "".join(calls), "", 30, 25)


class OneCharacter(random.Random):
    @override
    def randrange(self, *_: Any) -> int:
        return 1


class Sides(HttpxUpstream):
    """The model server and the service of a case."""

    def __init__(self, *, writes_calls_as_text: bool) -> None:
        self._writes_calls_as_text = writes_calls_as_text
        self.script: list[Callable[[str], Spoken]] = []
        self.judge: Callable[[str], Any] = refuse_word
        self.sent: list[str] = []
        self.asked: list[Json] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if request.url.host == "house.localhost":
            self.asked.append(json.loads(request.content))
            answer = self.judge(json.dumps(self.asked[-1], ensure_ascii=False))
            return httpx.Response(200, stream=Pieces([json.dumps(answer).encode()]), request=request)
        sent = json.dumps(json.loads(request.content), ensure_ascii=False)
        self.sent.append(sent)
        said = self.script.pop(0)(sent) if self.script else FINE
        if self._writes_calls_as_text:
            said = write_calls_as_text(said)
        path, api = request.url.path, find_api(request.url.path)
        if not api.read_request(path, json.loads(sent)).get("stream"):
            whole = Pieces([json.dumps(api.write_whole(said, "m")).encode()])
            headers = {"content-type": "application/json"}
            return httpx.Response(200, headers=headers, stream=whole, request=request)
        pieces = list(api.write_events(said, "m", OneCharacter()))
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=SlowStream(pieces), request=request)


def refuse_word(text: str) -> Json:
    return {"action": "BLOCKED", "blocked_reason": REASON} if WORD in text else {"action": "NONE"}


@dataclass
class Setting:
    gateway: Running
    sides: Sides
    kind: Kind
    stream: bool
    api: str
    mark: str
    """Stands in no text of another client, so that nothing is remembered of it."""

    def client(self, **options: Any) -> Client:
        return Client(self.gateway, self.kind, stream=self.stream, **options)

    def plan(self, *replies: Spoken | Callable[[str], Spoken]) -> None:
        self.sides.script = [one if callable(one) else lambda _, said=one: said for one in replies]  # type: ignore[misc]
        self.sides.sent.clear()
        self.sides.asked.clear()

    @property
    def sent(self) -> list[str]:
        return self.sides.sent

    @property
    def fails_whole(self) -> bool:
        """Whether nothing is left of a reply that is refused."""
        return self.kind.form == "responses" and not self.stream

    def check_refused_request(self, got: Got) -> None:
        assert got.end == "error", got
        assert got.status == (200 if self.kind.over == "background" else 400), got
        assert SENTENCE in got.raw, got

    def check_refused_reply(self, got: Got) -> None:
        assert SENTENCE in got.raw, got
        assert got.end == self.kind.refused_end, got
        if self.kind.form == "responses":
            assert got.status == (200 if self.stream or self.kind.over != "http" else 400), got
            assert '"invalid_prompt"' in got.raw or got.status == 400, got
            assert "response.incomplete" not in got.raw and '"refusal"' not in got.raw, got
        else:
            assert got.status == 200, got

    def check_asked(self, kind: str, *texts: str) -> None:
        """What the service was asked about of requests, or of replies."""
        asked = [text for one in self.sides.asked if one["input_type"] == kind for text in one["texts"]]
        assert [text.strip() for text in asked] == [*texts], asked


def find_words(sent: str) -> dict[str, str]:
    """Return the first placeholder of each kind in what a server was sent."""
    found = re.findall(r"\[([A-Z]+)_([A-Z2-7]{8})\]", sent)
    return {kind: f"[{kind}_{word}]" for kind, word in reversed(found)}


def list_messages(sent: str) -> list[Any]:
    body = json.loads(sent)
    return list(body.get("messages") or body.get("input") or body["contents"])


# The rules.


def a_text_that_is_refused_reaches_no_model(case: Setting) -> None:
    case.plan()
    client = case.client()
    case.check_refused_request(client.ask(f"{case.mark} A zebra runs"))
    assert not case.sent
    assert client.ask(f"{case.mark} Then a horse").text == "Fine.", "it does not block the session"
    assert WITHHELD in case.sent[0] and WORD not in case.sent[0]
    client.leave()


def a_result_that_is_refused_is_withheld_from_the_model(case: Setting) -> None:
    case.plan(speak("I look.", to="Paris"))
    client = case.client()
    call = client.ask(f"{case.mark} Weather?").calls[0]
    assert client.answer({str(call.id): f"{case.mark} a zebra"}).text == "Fine."
    assert WITHHELD in case.sent[1] and WORD not in case.sent[1]
    assert client.ask(f"{case.mark} Thanks").text == "Fine."
    assert WITHHELD in case.sent[2] and WORD not in case.sent[2]
    client.leave()


def a_reply_that_is_refused_is_not_sent(case: Setting) -> None:
    case.plan(speak("A zebra.", "Hm hm."))
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    case.check_refused_reply(got)
    assert "A ze" not in got.raw and "Hm hm" not in got.raw, got
    assert client.ask(f"{case.mark} And now?").text == "Fine."
    client.leave()


def what_was_released_before_a_refusal_stays(case: Setting) -> None:
    case.plan(speak("All is well in the first part. Then a zebra came by."))
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    case.check_refused_reply(got)
    assert "Then a" not in got.raw, got
    assert case.fails_whole or "All is well in the first part." in got.raw, got
    case.check_asked("response", "All is well in the first part.", "Then a zebra came by.")
    client.leave()


def a_service_can_keep_the_end_of_a_window_for_the_next_one(case: Setting) -> None:
    def judge(text: str) -> Json:
        if "This is" in text:
            return {"action": "NONE", "stream_holdback_chars": [6]}
        return {"action": "GUARDRAIL_INTERVENED", "texts": ["LINE.\nSecond."]} if "Second" in text else refuse_word("")

    case.sides.judge = judge
    case.plan(speak("This is a first line.\nSecond."))
    client = case.client()
    assert client.ask(f"{case.mark} Hello").text == "This is a first LINE.\nSecond."
    client.leave()


def a_call_that_is_refused_is_not_sent(case: Setting) -> None:
    case.plan(speak("I look at it.", to="/zebra"))
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    case.check_refused_reply(got)
    assert not got.calls and "/ze" not in got.raw, got
    assert case.fails_whole or "I look at it." in got.raw, got
    client.leave()


def a_value_is_masked_for_the_model_and_restored_for_the_client(case: Setting) -> None:
    def quote(sent: str) -> Spoken:
        words = find_words(sent)
        email, card, quoted = words["EMAIL"], words["CARD"], words["QUOTED"]
        return speak(f"Hi {email}, {card} {quoted}.", f"Mail to {email}.", to=email, quoted=f"{quoted} and {email}")

    case.plan(quote)
    client = case.client()
    got = client.ask(f"{case.mark} I am {EMAIL}, {CARD}, {QUOTED}")
    assert got.text == f"Hi {EMAIL}, {CARD} {QUOTED}.", got
    assert got.reasoning == f"Mail to {EMAIL}.", got
    assert json.loads(got.calls[0].arguments) == {"to": EMAIL, "quoted": f"{QUOTED} and {EMAIL}"}, got
    assert "EMAIL_" not in got.raw and "CARD_" not in got.raw, got
    assert client.answer({str(got.calls[0].id): f"sun for {EMAIL}"}).text == "Fine."
    assert client.ask(f"{case.mark} Thanks").text == "Fine."
    for sent in case.sent:
        assert EMAIL not in sent and CARD not in sent and QUOTED not in json.dumps(json.loads(sent)), sent
        assert find_words(sent) == find_words(case.sent[0])
    first, second, third = map(list_messages, case.sent)
    assert second[: len(first)] == first and third[: len(second)] == second, "prompts keep their beginning"
    said = case.sent[1].count(find_words(case.sent[0])["EMAIL"])
    assert said >= 5, "the text, the reply, two arguments, the result"
    if case.api == "messages":
        thought = {"type": "thinking", "thinking": f"Mail to {find_words(case.sent[0])['EMAIL']}."}
        assert json.dumps({**thought, "signature": "an opaque text"}) in case.sent[1], "what was signed stays"
    client.leave()


def a_value_is_redacted_for_both(case: Setting) -> None:
    case.plan(speak("Paid with [CARD], ask bob@example.com."))
    client = case.client()
    got = client.ask(f"{case.mark} Pay with {CARD}, mail {EMAIL}")
    assert got.text == "Paid with [CARD], ask [EMAIL].", got
    assert "[CARD], mail [EMAIL]" in case.sent[0]
    client.leave()


def only_what_is_new_is_asked_about(case: Setting) -> None:
    case.plan(speak("I look.", "Hm hm.", to="Paris"))
    client = case.client()
    call = client.ask(f"{case.mark} Weather?").calls[0]
    case.check_asked("request", f"{case.mark} Weather?")
    case.check_asked("response", "Hm hm.", "I look.")
    case.sides.asked.clear()
    assert client.answer({str(call.id): f"{case.mark} sunny"}).text == "Fine."
    case.check_asked("request", f"{case.mark} sunny")
    case.check_asked("response", "Fine.")
    case.sides.asked.clear()
    assert client.ask(f"{case.mark} Thanks").text == "Fine."
    case.check_asked("request", f"{case.mark} Thanks")
    client.leave()


def a_guard_that_observes_changes_nothing(case: Setting) -> None:
    case.plan(speak("A zebra.", "Hm hm."))
    client = case.client()
    got = client.ask(f"{case.mark} A zebra please")
    assert (got.text, got.reasoning) == ("A zebra.", "Hm hm."), got
    case.gateway.loop.run_until_complete(asyncio.sleep(0.01))
    case.check_asked("request", f"{case.mark} A zebra please")
    case.check_asked("response", "Hm hm.", "A zebra.")
    client.leave()


def nothing_goes_on_without_a_verdict(case: Setting) -> None:
    case.sides.judge = lambda text: {"action": "MAYBE"} if "request" in text else {"action": "NONE"}
    case.plan()
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    assert got.end == "error" and "gave no verdict" in got.raw and not case.sent, got
    assert got.status in ((200,) if case.kind.over == "background" else UNAVAILABLE), got
    client.leave()


def no_reply_is_sent_without_a_verdict(case: Setting) -> None:
    case.sides.judge = lambda text: {"action": "MAYBE"}
    case.plan(speak("Fine indeed."))
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    assert got.end == "error" and "gave no verdict" in got.raw, got
    assert "Fine" not in got.raw, got
    assert got.status in ((200,) if case.stream or case.kind.over != "http" else UNAVAILABLE), got
    client.leave()


def the_operator_can_choose_to_go_on_without_a_verdict(case: Setting) -> None:
    case.sides.judge = lambda text: {"action": "MAYBE"}
    case.plan()
    client = case.client()
    got = client.ask(f"{case.mark} Hello")
    assert got.text == "Fine.", got
    assert "the guard house gave no verdict, and this reply was sent without it" in got.raw, got
    if case.kind.over == "http":
        assert "house=failed" in got.headers["x-parley-guards"], got
    client.leave()


def a_guard_of_the_fallback_is_asked_too(case: Setting) -> None:
    case.plan()
    client = case.client(model="other-name")
    case.check_refused_request(client.ask(f"{case.mark} A zebra runs"))
    assert not case.sent
    client.leave()


def a_refused_reply_is_not_stored_and_a_stored_one_is_not_checked_again(case: Setting) -> None:
    def ask() -> Got:
        client = case.client()
        got = client.ask(f"{case.mark} Hello {EMAIL}")
        client.leave()
        return got

    case.plan(speak("A zebra."), lambda sent: speak(f"To {find_words(sent)['EMAIL']}"))
    case.check_refused_reply(ask())
    for _ in range(2):
        assert ask().text == f"To {EMAIL}"
    assert len(case.sent) == 2
    case.check_asked("response", "A zebra.", f"To {find_words(case.sent[0])['EMAIL']}")


def each_key_has_words_of_its_own(case: Setting) -> None:
    case.plan(*[lambda sent: speak(f"To {find_words(sent)['EMAIL']}")] * 2)
    for key in ("a", "b"):
        client = case.client(key=f"key-of-{key}-00001")
        assert client.ask(f"{case.mark} {EMAIL}").text == f"To {EMAIL}"
        client.leave()
    assert find_words(case.sent[0]) != find_words(case.sent[1])


def what_presidio_finds_is_masked_and_restored(case: Setting) -> None:
    def judge(text: str) -> list[Json]:
        given = json.loads(text)["text"]
        start = given.find("Ann Lee")
        return [{"start": start, "end": start + 7, "entity_type": "PERSON", "score": 0.9}] if start >= 0 else []

    case.sides.judge = judge
    case.plan(lambda sent: speak(f"Call {find_words(sent)['PERSON']}.", to=find_words(sent)["PERSON"]))
    client = case.client()
    got = client.ask(f"🙂 {case.mark} Ann Lee called.")
    assert got.text == "Call Ann Lee." and json.loads(got.calls[0].arguments) == {"to": "Ann Lee"}, got
    assert client.answer({str(got.calls[0].id): "Ann Lee is out 🙂"}).text == "Fine."
    assert not any("Ann Lee" in sent for sent in case.sent)
    client.leave()


def a_call_of_the_gateway_is_checked_before_it_runs(case: Setting) -> None:
    tools = case.gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")]))
    case.plan(Spoken("", "", "", 30, 25, (("call_1", "wx-now", '{"city": "zebra"}'),)))
    client = case.client()
    case.check_refused_reply(client.ask(f"{case.mark} Weather?"))
    assert not tools.calls
    client.leave()


def a_tool_of_the_gateway_gets_values_and_the_model_words(case: Setting) -> None:
    result = f"Sun for {EMAIL}, {CARD}"
    tools = case.gateway.context.tools = cast(
        Any, FakeServers([make_tool("wx", "now")], {"wx-now": text_answer(result)})
    )

    def call(sent: str) -> Spoken:
        arguments = json.dumps({"to": find_words(sent)["EMAIL"], "quoted": find_words(sent)["QUOTED"]})
        return Spoken("", "I look.", "", 30, 25, (("call_1", "wx-now", arguments),))

    case.plan(call, lambda sent: speak(f"Sun, {find_words(sent)['EMAIL']}, {find_words(sent)['CARD']}"))
    client = case.client()
    got = client.ask(f"{case.mark} Weather for {EMAIL} {QUOTED}?")
    assert tools.calls == [("wx-now", {"to": EMAIL, "quoted": QUOTED})]
    assert f"Sun, {EMAIL}, {CARD}" in got.raw, got
    assert "EMAIL_" not in got.raw and "CARD_" not in got.raw, got
    assert not any(value in sent for sent in case.sent for value in (EMAIL, CARD))
    client.leave()


def a_result_of_the_gateway_that_is_refused_is_withheld_from_both(case: Setting) -> None:
    case.gateway.context.tools = cast(Any, FakeServers([make_tool("wx", "now")], {"wx-now": text_answer("a zebra")}))
    case.plan(Spoken("", "I look.", "", 30, 25, (("call_1", "wx-now", "{}"),)))
    client = case.client()
    got = client.ask(f"{case.mark} Weather?")
    assert "Fine." in got.raw and WORD not in got.raw, got
    assert WITHHELD in case.sent[1] and WORD not in case.sent[1]
    client.leave()


def a_reply_is_resumed_as_it_was(case: Setting) -> None:
    case.plan(lambda sent: speak(f"To {find_words(sent)['EMAIL']}"), speak("A zebra."))
    for number, text in enumerate((f"To {EMAIL}", SENTENCE)):
        client = case.client()
        got = client.ask(f"{case.mark} {number} {EMAIL}")
        assert text in got.raw
        id_ = got.headers.get("x-parley-response-id")
        for path in (f"/v1/chat/{id_}/events", f"/v1/chat/{id_}", f"/v1/responses/{id_}"):
            again = case.gateway.get(path)
            if again.status == 200:
                assert text in again.body.decode().replace("\\/", "/") or case.stream, again.body
            assert WORD not in again.body.decode() and "EMAIL_" not in again.body.decode(), again.body
        client.leave()


@dataclass(frozen=True)
class Rule:
    check: Callable[[Setting], None]
    guards: Json
    more: Json

    @property
    def name(self) -> str:
        return self.check.__name__.replace("_", " ")


def rule(check: Callable[[Setting], None], guards: Json, **more: Any) -> Rule:
    return Rule(check, guards, more)


ASKED: Json = {**HOUSE, "phases": ["request"]}
JUDGED: Json = {**HOUSE, "phases": ["reply"]}
FALLBACK: Json = {"m": {"upstreams": ["s"], "aliases": ["other-name"], "fallbacks": ["m2"]}, "m2": {"upstreams": ["s"]}}
RULES: Sequence[Rule] = (
    rule(a_text_that_is_refused_reaches_no_model, {"house": HOUSE}),
    rule(a_result_that_is_refused_is_withheld_from_the_model, {"house": HOUSE}),
    rule(a_reply_that_is_refused_is_not_sent, {"house": HOUSE}),
    rule(what_was_released_before_a_refusal_stays, {"house": {**HOUSE, **WINDOW}}),
    rule(a_service_can_keep_the_end_of_a_window_for_the_next_one, {"house": {**JUDGED, **WINDOW}}),
    rule(a_call_that_is_refused_is_not_sent, {"house": {**HOUSE, **WINDOW}}),
    rule(a_value_is_masked_for_the_model_and_restored_for_the_client, {"pii": PII}),
    rule(a_value_is_redacted_for_both, {"pii": {"detectors": ["email", "card"], "action": "redact"}}),
    rule(only_what_is_new_is_asked_about, {"house": HOUSE}),
    rule(a_guard_that_observes_changes_nothing, {"house": {**HOUSE, "mode": "observe"}}),
    rule(nothing_goes_on_without_a_verdict, {"house": HOUSE}),
    rule(no_reply_is_sent_without_a_verdict, {"house": JUDGED}),
    rule(the_operator_can_choose_to_go_on_without_a_verdict, {"house": {**HOUSE, "on_failure": "pass"}}),
    rule(a_guard_of_the_fallback_is_asked_too, {"house": {**ASKED, "models": ["m2"]}}, models=FALLBACK),
    rule(
        a_refused_reply_is_not_stored_and_a_stored_one_is_not_checked_again,
        {"pii": PII, "house": JUDGED},
        cache={"url": "memory:", "apply": "always"},
    ),
    rule(
        each_key_has_words_of_its_own,
        {"pii": PII},
        keys={key: {"sha256": hash_key(f"key-of-{key}-00001")} for key in ("a", "b")},
        cache={"url": "memory:", "apply": "always"},
    ),
    rule(what_presidio_finds_is_masked_and_restored, {"names": {"url": HOUSE["url"], "api": "presidio"}}),
    rule(a_call_of_the_gateway_is_checked_before_it_runs, {"house": HOUSE}),
    rule(a_tool_of_the_gateway_gets_values_and_the_model_words, {"pii": PII}),
    rule(a_result_of_the_gateway_that_is_refused_is_withheld_from_both, {"house": ASKED}),
    rule(a_reply_is_resumed_as_it_was, {"pii": PII, "house": JUDGED}),
)


CLIENTS = [(name, stream) for name in KINDS for stream in (True, False) if stream or KINDS[name].over != "socket"]
SHARE = 4
"""With each server a rule is tried for one of so many clients, and for all of them with `FUZZ=long`."""


def make_settings(rule: Rule, server: str) -> Json:
    api, profile = SERVERS[server]
    settings = {
        "upstreams": {"s": {"base_url": "http://model.test/v1", "api": api}},
        "models": {"m": {"upstreams": ["s"]}},
        "server": {"log_level": "error"},
        "cache": {"url": "memory:"},
        "guards": rule.guards,
        "masking": {"key": "0" * 64, "notice": False, "patterns": {"quoted": r'q"[^"]{1,9}"q'}},
        **rule.more,
    }
    settings["models"] = {name: {**row, "profile": profile} for name, row in settings["models"].items()}
    return settings


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_holds_for_each_client(rule: Rule, server: str) -> None:
    sides = Sides(writes_calls_as_text=server == TEXT_CALLS)
    failed: list[str] = []
    first = (RULES.index(rule) + [*SERVERS].index(server)) % SHARE
    with Running(make_settings(rule, server), sides) as gateway:
        for name, stream in CLIENTS if LONG else CLIENTS[first::SHARE]:
            case = Setting(gateway, sides, KINDS[name], stream, SERVERS[server][0], f"{name} {stream}:")
            sides.judge = refuse_word
            try:
                rule.check(case)
            except Exception as error:
                failed.append(f"{name}, stream {stream}: {type(error).__name__}: {error}"[:1500])
    assert not failed, f"{len(failed)} clients:\n" + "\n".join(failed)
