"""A path of the gateway's machine is never read, in any format: in the newest message it is refused with its place, in
the history it becomes words, with a warning."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.in_process_gateway import Answer, ModelServer, Running

Json = dict[str, Any]

PATHS = [
    "/etc/passwd",
    "/home/ada/music/song.wav",
    "/var/lib/records/0001",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file:/etc/passwd",
    "./a.png",
    "../../a.png",
    "~/a.png",
    "C:\\a.png",
    "\\\\server\\share\\a.png",
    "ftp://files.test/a.png",
]
FIRST = "messages[0].content[0]"


def _qwen(path: str) -> Iterator[tuple[list[Any], str]]:
    for kind in ("image", "audio", "video", "file"):
        yield _user([{kind: path}]), f"{FIRST}.{kind}"
    yield _user([{"audio": {"data": path}}]), f"{FIRST}.audio"
    yield _user([{"video": ["https://files.test/a.png", path]}]), f"{FIRST}.video[1]"
    call = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": [{"text": "x"}, {"image": path}]}
    yield [*_user("q"), call, result], "messages[2].content[1].image"
    yield [*_user("q"), {"role": "assistant", "content": [{"file": path}]}], "messages[1].content[0].file"


def _openai(path: str) -> Iterator[tuple[list[Any], str]]:
    for kind in ("image_url", "audio_url", "video_url"):
        yield _user([{"type": kind, kind: {"url": path}}]), f"{FIRST}.{kind}.url"
    sound = {"type": "input_audio", "input_audio": {"data": path, "format": "wav"}}
    yield _user([sound]), f"{FIRST}.input_audio.data"
    yield _user([{"type": "video", "video": ["https://files.test/a.png", path]}]), f"{FIRST}.video[1]"
    yield _user([{"type": "file", "file": {"file_data": path}}]), f"{FIRST}.file.file_data"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": path}}]}
    yield [*_user("q"), asked, result], "messages[2].content[0].image_url.url"


def _autogen(path: str) -> Iterator[tuple[list[Any], str]]:
    for kind in ("UserMessage", "MultiModalMessage"):
        yield [{"type": kind, "source": "user", "content": ["a", {"data": path}]}], "messages[0].content[1].data"


def _agentscope(path: str) -> Iterator[tuple[list[Any], str]]:
    url = {"type": "url", "url": path}
    for kind in ("image", "audio", "video"):
        yield [_msg("user", {"type": kind, "source": url})], f"{FIRST}.source.url"
        data = {"type": "base64", "media_type": "image/png", "data": path}
        yield [_msg("user", {"type": kind, "source": data})], f"{FIRST}.source.data"
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "id": "c", "name": "f", "output": [{"type": "image", "source": url}]}
    place = "messages[2].content[0].output[0].source.url"
    yield [_msg("user", {"type": "text", "text": "q"}), _msg("assistant", call), _msg("system", result)], place


def _agentscope2(path: str) -> Iterator[tuple[list[Any], str]]:
    for media_type in ("image/png", "audio/wav", "video/mp4", "application/pdf"):
        source = {"type": "url", "url": path, "media_type": media_type}
        yield [_msg("user", {"type": "data", "source": source})], f"{FIRST}.source.url"
        source = {"type": "base64", "data": path, "media_type": media_type}
        yield [_msg("user", {"type": "data", "source": source})], f"{FIRST}.source.data"


def _user(content: Any) -> list[Json]:
    return [{"role": "user", "content": content}]


def _msg(role: str, *blocks: Json) -> Json:
    content = [{"id": f"b{place}", **block} for place, block in enumerate(blocks)]
    return {"id": "m", "name": "x", "role": role, "content": content, "metadata": {}}


FORMATS = {
    "qwen": _qwen,
    "openai": _openai,
    "autogen": _autogen,
    "agentscope": _agentscope,
    "agentscope2": _agentscope2,
}


def check(server: ModelServer, answer: Answer, place: str, *, refused: int) -> None:
    """Check that the path was refused in the newest message, and described in the history."""
    if place.startswith("messages[0]"):
        error = answer.json.get("error") or answer.json
        assert (answer.status, error["param"]) == (refused, place)
        assert server.requests == []
        return
    assert answer.status == 200
    expected = f"{place} was not sent: must be an http(s) URL or a data URI"
    assert [one for one in json.loads(answer.headers["x-parley-warnings"]) if one.startswith(expected)]
    [request] = server.requests
    assert " (not sent: must be " in str(json.loads(request.content)["messages"])
    server.requests.clear()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("profile", [{}, {"media": [], "native_tools": False}], ids=["taken", "described"])
def test_a_local_path_is_not_read_whether_the_model_takes_it_or_not(format: str, profile: Json) -> None:
    server = ModelServer()
    tree = {
        "upstreams": {"local": {"base_url": "http://model.test/v1"}},
        "models": {"m": {"upstreams": ["local"], "profile": profile}},
    }
    with Running(tree, server) as gateway:
        for path in PATHS:
            for messages, place in FORMATS[format](path):
                answer = gateway.post(
                    "/v1/chat", {"model": "m", "format": format, "messages": messages, "stream": False}
                )
                check(server, answer, place, refused=400 if format == "openai" or "_url" in place else 422)


@pytest.mark.parametrize("path", PATHS)
def test_the_openai_endpoint_reads_no_local_path_either(path: str) -> None:
    server = ModelServer()
    with Running(None, server) as gateway:
        for messages, place in _openai(path):
            answer = gateway.post("/v1/chat/completions", {"model": "m", "messages": messages})
            check(server, answer, place, refused=400)
