"""Events of a server of the same API, as the client gets them."""

import json
from typing import Any

from app.chat.events import Finish, Passed
from app.formats.base import Options, ReplyInfo, ResponsesOptions
from app.formats.responses.events import EventWriter
from app.formats.responses.passed_events import PassedEvents

from tests.each_case import each_case

Json = dict[str, Any]


class Stream:
    def __init__(self, **fields: Any) -> None:
        options = Options(passed=True, responses=ResponsesOptions(fields=fields))
        self.events = EventWriter([])
        self.passed = PassedEvents(ReplyInfo("resp_1", "req-1", "m", 1, warnings=["w"], options=options), self.events)

    def write(self, name: str, **fields: Any) -> Json | None:
        """Pass on an event, and return what is written of it."""
        frame = self.passed.write(Passed(name, json.dumps({"type": name, **fields})))
        head, _, data = frame.partition(b"\ndata: ")
        assert head in (b"", f"event: {name}".encode())
        return json.loads(data) if frame else None


def test_the_response_has_the_name_of_the_clients_model_and_an_id_if_it_is_stored() -> None:
    first = {"id": "theirs", "model": "their-model", "store": False}
    for stream, changed in ((Stream(), {}), (Stream(store=True), {"id": "resp_1", "store": True})):
        written = stream.write("response.created", response=first, sequence_number=0)
        assert written == {
            "type": "response.created",
            "response": {**first, "model": "m", **changed},
            "sequence_number": 0,
        }
        assert stream.write("response.queued", response=None) == {"type": "response.queued", "response": None}


def test_other_events_are_passed_on_unchanged() -> None:
    stream = Stream()
    for name in ("response.output_text.delta", "response.output_item.done", "codex.rate_limits"):
        assert stream.write(name, item={"id": "x"}, delta="a") == {"type": name, "item": {"id": "x"}, "delta": "a"}
    assert stream.events.output == [{"id": "x"}]


def test_the_last_event_is_held_with_what_it_has_beside_its_response() -> None:
    stream = Stream()
    end = {"output": [{"id": "a"}], "status": "completed", "model": "theirs"}
    assert stream.write("response.completed", response=end, sequence_number=9, copilot_usage={"n": 1}) is None
    assert stream.passed.beside_end == {"copilot_usage": {"n": 1}}
    assert stream.events.find_number() == 9
    made = stream.passed.make_response(Finish("stop", warnings=("v",)))
    assert made == {**end, "model": "m", "parley": {"warnings": ["w", "v"]}}


@each_case(("reason", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_a_response_without_output_or_status_gets_those_of_its_events(reason: Any, status: str) -> None:
    stream = Stream()
    stream.write("response.output_item.done", item={"id": "a"})
    stream.write("response", output=[])
    made = stream.passed.make_response(Finish(reason))
    assert (made["output"], made["status"]) == ([{"id": "a"}], status)
    empty = Stream().passed.make_response(Finish(reason))
    assert (empty["output"], empty["status"]) == ([], status)
