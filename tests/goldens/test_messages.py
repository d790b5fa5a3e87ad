"""`POST /v1/messages` answers as Anthropic's clients expect: what a model server is sent for each request, and what the
client reads of each reply, streamed and whole, however the server's bytes are cut."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from app.chat.events import Event, Failed
from app.chat.stage import feed_to_end
from app.errors import UpstreamFailed
from app.formats.anthropic import ANTHROPIC
from app.formats.base import Options, ReplyInfo, ReplyMode

from tests.cuts import bytewise, distinct_cuts
from tests.golden_gateway import GoldenGateway
from tests.goldens.message_goldens import Json, body, differences, events, joined, load
from tests.reply_pipeline import Recorded, replay

REQUESTS, REPLIES, LOOPS = load("requests"), load("replies"), load("loops")
PATH = "/v1/messages"


@pytest.fixture(scope="module")
def gateway() -> Iterator[GoldenGateway]:
    with GoldenGateway(body) as gateway:
        yield gateway


def check_request(gateway: GoldenGateway, request: Json, expect: Json) -> None:
    gateway.answer_with(None)
    asked = len(gateway.sent)
    answer = gateway.post(PATH, request)
    if "error" in expect:
        error, wanted = answer.json["error"], expect["error"]
        assert (answer.status, error["type"], error["code"]) == (wanted["status"], wanted["type"], wanted["code"])
        given = [one["param"] for one in error.get("violations", ())] or [error["param"]]
        assert given == wanted["params"]
        assert error.get("details") == wanted.get("details")
        assert len(gateway.sent) == asked
        return
    assert answer.status == 200, answer.body
    assert gateway.sent[-1] == expect["upstream"]
    warnings = json.loads(answer.headers.get("x-parley-warnings", "[]"))
    places = [text.replace(":", " ").partition(" ")[0] for text in warnings]
    assert places == [text.replace(":", " ").partition(" ")[0] for text in expect["warnings"]]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_reaches_the_model_server_or_is_refused_at_its_place(gateway: GoldenGateway, name: str) -> None:
    case = REQUESTS[name]
    check_request(gateway, case["request"], case["expect"])


@pytest.mark.parametrize("name", LOOPS)
def test_what_real_clients_send_reaches_the_model_server(gateway: GoldenGateway, name: str) -> None:
    for turn in LOOPS[name]["requests"]:
        if "answer" in turn["expect"]:
            counted = gateway.post(turn["path"], turn["body"])
            assert differences(turn["expect"]["answer"], counted.json) == []
            continue
        check_request(gateway, turn["body"], turn["expect"])


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_written_as_anthropics_clients_read_it(gateway: GoldenGateway, name: str) -> None:
    case = REPLIES[name]
    gateway.answer_with(case["upstream"])
    for stream in (True, False):
        answer = gateway.post(PATH, {**case["request"], "stream": stream})
        wanted = case["expect"]["stream" if stream else "whole"]
        assert answer.headers["request-id"] == answer.headers["x-request-id"]
        if isinstance(wanted, list):
            assert answer.status == 200
            assert differences(joined(wanted), joined(events(answer.body))) == []
            continue
        assert answer.status == wanted["status"], answer.body
        assert differences(wanted["body"], answer.json) == []
        assert {key: answer.headers[key] for key in wanted.get("headers", {})} == wanted.get("headers", {})


def encode_reply(batches: list[list[Event]], info: ReplyInfo, mode: ReplyMode) -> bytes:
    """What the client reads of these events."""
    stage = ANTHROPIC.make_stage(info, mode)
    assert stage is not None
    received = feed_to_end(stage, batches)
    encoder = ANTHROPIC.reply_encoder(info, mode)
    data = encoder.open() + b"".join(encoder.feed(batch) for batch in received if batch)
    last = next(batch[-1] for batch in reversed(received) if batch)
    if mode == "whole" and isinstance(last, Failed):
        return encoder.fail(UpstreamFailed(last.fault).to_dict(info.request_id))
    return data


@pytest.mark.many_cases
@pytest.mark.parametrize("name", [name for name, case in REPLIES.items() if case["upstream"].get("chunks")])
def test_every_cut_of_the_servers_bytes_gives_the_same_reply(name: str) -> None:
    case = REPLIES[name]
    data, broken = body(case["upstream"]), bool(case["upstream"].get("cut"))
    request = case["request"]
    options = Options(
        stop_words=tuple(request.get("stop_sequences", ())),
        hide_thinking=request.get("thinking", {}).get("display") == "omitted",
        input_tokens=7,
    )
    info = ReplyInfo("chat-1", "req-1", "qwen3", 1, options=options)

    async def replies() -> None:
        whole = await replay(Recorded([data], broken=broken))
        stream, one = joined(events(encode_reply(whole, info, "delta"))), encode_reply(whole, info, "whole")
        for parts in [*distinct_cuts(data), bytewise(data)]:
            batches = await replay(Recorded(parts, broken=broken))
            assert joined(events(encode_reply(batches, info, "delta"))) == stream
            assert encode_reply(batches, info, "whole") == one

    asyncio.run(replies())
