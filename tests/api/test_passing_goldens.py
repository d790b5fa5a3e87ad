"""Cases that others wrote of requests that are no conversation: what a server must be sent, and what a client gets."""

import json
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.passing_gateway import ENDPOINTS
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.streams.recordings import FOLDER as STREAMS

Json = dict[str, Any]
GOLDENS = STREAMS.parent / "goldens" / "other_endpoints"
CASES = sorted(GOLDENS.glob("cases/*.json"))
pytestmark = pytest.mark.skipif(not CASES, reason=f"no cases in {GOLDENS}: set PARLEY_STREAMS to the folder beside it")
AS_SENT, ESTIMATE = "<as sent>", "<estimate>"
BOUNDARY = "a-boundary"
RECORDED = {"prompt_tokens": "input", "completion_tokens": "output"}


def configure(config: Json) -> Json:
    upstreams = {name: {"base_url": f"http://{name}.test/v1", **config.get(name, {})} for name in ENDPOINTS}
    models = {
        name: {"upstreams": [name], "name": f"up-{name}", "endpoints": served} for name, served in ENDPOINTS.items()
    }
    more = {name: fields for name, fields in config.items() if name not in ENDPOINTS}
    return {"upstreams": upstreams, "models": models, "server": {"log_level": "error"}, **more}


def write_form(parts: list[Json]) -> bytes:
    out = []
    for part in parts:
        name = f'form-data; name="{part["name"]}"'
        head = [f"Content-Disposition: {name}" + (f'; filename="{part["filename"]}"' if "filename" in part else "")]
        head += [f"Content-Type: {part['content_type']}"] if "content_type" in part else []
        out.append("\r\n".join([f"--{BOUNDARY}", *head, "", part["value"]]))
    return "\r\n".join([*out, f"--{BOUNDARY}--", ""]).encode()


def read_form(content_type: str, body: bytes) -> list[Json]:
    form = BytesParser(EmailMessage, policy=HTTP).parsebytes(f"content-type: {content_type}\r\n\r\n".encode() + body)
    found = []
    for part in form.iter_parts():
        row = {"name": part.get_param("name", header="content-disposition"), "value": part.get_content()}
        if isinstance(row["value"], bytes):
            row["value"] = row["value"].decode()
        if part.get_filename():
            row |= {"filename": part.get_filename(), "content_type": part.get_content_type()}
        found.append(row)
    return found


def answer_as(given: Json) -> httpx.Response:
    headers = {"content-type": given.get("content_type", "application/json"), **given.get("headers", {})}
    if "chunks" in given:
        return streamed(*(chunk.encode() for chunk in given["chunks"]))
    body = given["body"]
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return httpx.Response(given["status"], headers=headers, content=content)


def send(gateway: Running, given: Json) -> Answer:
    if "multipart" in given:
        headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
        return gateway.post(given["path"], write_form(given["multipart"]), headers)
    headers = {name: value for name, value in given.get("headers", {}).items() if name != "x-raw"}
    raw = given.get("headers", {}).get("x-raw")
    return gateway.post(given["path"], given["body"] if raw is None else raw.encode(), headers)


def check_error(answer: Answer, expected: Json) -> None:
    found = answer.json.get("error", answer.json)
    assert (answer.status, found["code"]) == (expected["status"], expected["code"])
    assert "param" not in expected or found["param"] == expected["param"]
    assert expected.get("message_has", "") in found["message"]


def check_sent(request: httpx.Request, expected: Json) -> None:
    assert request.url.path == expected["path"]
    if "multipart" in expected:
        assert read_form(request.headers["content-type"], request.content) == expected["multipart"]
    else:
        assert json.loads(request.content) == expected["body"]


def check_answer(answer: Answer, expected: Json, given: Json) -> None:
    assert answer.status == expected["status"]
    if "events" in expected:
        found = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        sent = [line[6:] for chunk in given["chunks"] for line in chunk.split("\n") if line.startswith("data: ")]
        events = [json.loads(one) for one in found if one != "[DONE]"]
        wanted = [json.loads(one) for one in sent if one != "[DONE]"]
        if expected.get("end") == "error":
            assert events.pop()["error"]["code"] == expected["code"]
            assert "[DONE]" not in found
        assert events == (wanted if expected["events"] == AS_SENT else expected["events"])
    elif expected["body"] == AS_SENT:
        same = {"model": answer.json["model"]} if "model" in given["body"] else {}
        assert answer.json == {**given["body"], **same} if isinstance(given["body"], dict) else given["body"]
        assert not str(same.get("model", "")).startswith("up-")
    else:
        assert answer.json == expected["body"]


def check_usage(gateway: Running, expected: Json) -> None:
    gateway.context.ended.report()
    record = gateway.context.recent.list_newest_first()[0]
    for name, count in expected.items():
        if name == "estimated":
            assert record.tokens_estimated is count
        elif name in RECORDED and count != ESTIMATE:
            assert getattr(record.tokens, RECORDED[name]) == count


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_request_passes_as_the_case_says(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    given, expected = case["given"], case["expect"]
    server = ModelServer(lambda _: answer_as(given["upstream"]))
    with Running(configure(given.get("config", {})), server) as gateway:
        answer = send(gateway, given)
        assert bool(server.requests) == ("upstream" in given)
        if "error" in expected:
            check_error(answer, expected["error"])
            return
        check_sent(server.requests[0], expected["upstream"])
        check_answer(answer, expected, given["upstream"])
        check_usage(gateway, expected.get("usage", {}))
