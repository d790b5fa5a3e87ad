"""A medium that cannot be read is refused in the user's newest message, and replaced with words in the history."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.attachments.documents import sample_documents
from tests.in_process_gateway import ModelServer, Running

Json = dict[str, Any]
ADDRESS = {"base_url": "http://model.test/v1"}
SETTINGS: Json = {
    "upstreams": {"vllm": {**ADDRESS, "kind": "vllm"}, "deepseek": {**ADDRESS, "kind": "deepseek"}},
    "models": {
        "m": {"upstreams": ["vllm"]},
        "audio": {"upstreams": ["vllm"], "profile": {"audio": "base64"}},
        "blind": {"upstreams": ["vllm"], "profile": {"media": []}},
        "both": {"upstreams": ["vllm", "blind"]},
    },
}
SETTINGS["upstreams"]["blind"] = {"base_url": "http://blind.test/v1", "kind": "minimax"}
PNG = sample_documents.picture(40, 30)


class Gateway:
    def __init__(self, running: Running, server: ModelServer) -> None:
        self.post = running.post
        self.server = server

    def sent(self) -> Json:
        """The body of the only request to a model server since the last call."""
        [request] = self.server.requests
        self.server.requests.clear()
        body: Json = json.loads(request.content)
        return body


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(SETTINGS, server) as running:
        yield Gateway(running, server)


def uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def image(url: str) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def file(content: bytes, name: str = "a.pdf") -> Json:
    return {"type": "file", "file": {"filename": name, "file_data": uri("application/pdf", content)}}


UNREADABLE: dict[str, tuple[Json, str]] = {
    "an SVG drawing": (image(uri("image/png", b"<svg xmlns='http://www.w3.org/2000/svg'/>")), "is an SVG drawing"),
    "an HTML page": (image(uri("image/png", b"<!doctype html><title>Not found</title>")), "is an HTML page"),
    "a source text": (image(uri("image/png", b"int main(void) { return 0; }")), "is not an image"),
    "random bytes": (image(uri("image/jpeg", bytes(range(128, 255)))), "is not an image"),
    "nothing": (image("data:image/png;base64,"), "is empty"),
    "no base64": (image("data:image/png;base64,iVBORw0KGgo…"), "is not base64"),
    "no data": (image("data:image/png"), "must have a comma"),
    "a local path": (image("file:///home/me/cat.png"), "files of the gateway's machine are never read"),
    "a name": (image("cat.png"), "files of the gateway's machine are never read"),
    "an object of a browser": (image("blob:https://app.test/1b-2c"), "must be an http(s) URL or a data URI"),
    "no URL": (image(""), "must not be empty"),
    "null": ({"type": "image_url", "image_url": None}, "must be an object"),
    "a file at a provider": ({"type": "file", "file": {"file_id": "file-1"}}, "cannot read files stored at a provider"),
    "a private address": (image("http://10.0.0.1/a.png"), "is not on a public address"),
    "a locked PDF": (file(sample_documents.locked_pdf()), "is protected by a password"),
    "a damaged PDF": (file(b"%PDF-1.4 and no more"), "is a damaged PDF"),
    "a damaged DOCX": (file(sample_documents.word()[:-200], "a.docx"), "is a damaged archive"),
    "an old DOC": (file(b"\xd0\xcf\x11\xe0" + bytes(600), "a.doc"), "is an old binary Office file"),
    "silence": (
        {"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,", "format": "wav"}},
        "is empty",
    ),
}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "seen"}


def in_old_result(part: Json) -> list[Json]:
    return [USER, {"role": "assistant", "tool_calls": [CALL]}, result(part), ANSWER, USER]


def in_newest_result(part: Json) -> list[Json]:
    return [USER, {"role": "assistant", "tool_calls": [CALL]}, result(part)]


def in_earlier_turn(part: Json) -> list[Json]:
    return [{"role": "user", "content": [part]}, ANSWER, USER]


def before_the_calls_of_a_turn(part: Json) -> list[Json]:
    return [{"role": "user", "content": [part]}, {"role": "assistant", "tool_calls": [CALL]}, result(None)]


def in_a_message_before_the_newest(part: Json) -> list[Json]:
    return [{"role": "user", "content": [part]}, USER]


def result(part: Json | None) -> Json:
    return {"role": "tool", "tool_call_id": "a", "content": [part] if part else "nothing"}


HISTORIES = [
    in_old_result,
    in_newest_result,
    in_earlier_turn,
    before_the_calls_of_a_turn,
    in_a_message_before_the_newest,
]


@pytest.mark.parametrize("place", HISTORIES)
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_medium_of_the_history_becomes_words_with_a_warning(
    gateway: Gateway, name: str, place: Callable[[Json], list[Json]]
) -> None:
    part, why = UNREADABLE[name]
    answer = gateway.post("/v1/chat", {"model": "m", "format": "openai", "stream": False, "messages": place(part)})
    assert answer.status == 200, answer.body
    sent = json.dumps(gateway.sent()["messages"], ensure_ascii=False)
    assert why in sent
    assert not any(f'"{key}":' in sent for key in ("image_url", "file_data", "input_audio", "audio_url"))
    [warning] = answer.json["warnings"]
    assert " was not sent: " in warning and why in warning
    assert warning.startswith("messages[")


@pytest.mark.parametrize(
    "after", [[], [{"role": "system", "content": "be short"}], [{**ANSWER, "content": "It shows"}]]
)
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_medium_of_the_newest_message_is_refused_by_its_place(
    gateway: Gateway, name: str, after: list[Json]
) -> None:
    """A system message, and the beginning of the answer, do not make it an older one."""
    part, why = UNREADABLE[name]
    messages = [USER, ANSWER, {"role": "user", "content": [{"type": "text", "text": "look"}, part]}, *after]
    answer = gateway.post("/v1/chat", {"model": "m", "format": "openai", "stream": False, "messages": messages})
    assert answer.status == 400, answer.body
    assert answer.json["error"]["param"].startswith("messages[2].content[1].")
    assert why in answer.json["error"]["message"]
    assert not gateway.server.requests


def test_an_image_that_was_cut_is_sent_only_in_the_newest_message(gateway: Gateway) -> None:
    """There its server may still read it; in the history, a server that cannot would end the conversation."""
    for form, media_type in (
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
    ):
        whole = sample_documents.picture(64, 64, form)
        for content, seen in ((whole, True), (whole[: len(whole) // 2], False)):
            part = image(uri(media_type, content))
            for place in HISTORIES:
                gateway.post("/v1/chat/completions", {"model": "m", "messages": place(part)})
                assert ("image_url" in json.dumps(gateway.sent())) is seen
            gateway.post("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": [part]}]})
            assert uri(media_type, content) in json.dumps(gateway.sent())


def test_an_image_of_the_history_with_bytes_after_its_end_is_sent(gateway: Gateway) -> None:
    part = image(uri("image/jpeg", sample_documents.picture(64, 64, "JPEG") + b"trailer"))
    gateway.post("/v1/chat/completions", {"model": "m", "messages": in_old_result(part)})
    assert part["image_url"]["url"] in json.dumps(gateway.sent())


@pytest.mark.parametrize("model", ["blind", "m"])
def test_a_medium_of_an_earlier_turn_that_the_model_does_not_accept_is_named(gateway: Gateway, model: str) -> None:
    part = image("https://files.test/cat.png")
    body = {"model": model, "format": "openai", "stream": False, "messages": in_earlier_turn(part)}
    answer = gateway.post("/v1/chat", body)
    assert answer.status == 200
    sent = gateway.sent()["messages"][0]["content"]
    if model == "m":
        assert sent == [part] and "warnings" not in answer.json
        return
    assert sent == "[image: cat.png]"
    warning = "messages[0].content[0].image_url was not sent: this model does not accept image input"
    assert answer.json["warnings"] == [warning]
    refused = gateway.post("/v1/chat", {**body, "messages": [{"role": "user", "content": [part]}]})
    assert refused.status == 400 and refused.json["error"]["param"] == "messages[0].content[0].image_url"


def test_a_server_that_does_not_accept_old_media_is_used_only_if_none_does(gateway: Gateway) -> None:
    for _ in range(8):
        messages = in_earlier_turn(image("https://files.test/cat.png"))
        gateway.post("/v1/chat/completions", {"model": "both", "messages": messages})
        [request] = gateway.server.requests
        gateway.server.requests.clear()
        assert request.url.host == "model.test"


def test_an_image_that_is_in_the_history_and_in_the_newest_message_must_be_readable(gateway: Gateway) -> None:
    part = UNREADABLE["an HTML page"][0]
    messages = [*in_earlier_turn(part)[:2], {"role": "user", "content": [part]}]
    answer = gateway.post("/v1/chat", {"model": "m", "format": "openai", "stream": False, "messages": messages})
    assert answer.status == 400
    assert answer.json["error"]["param"] == "messages[2].content[0].image_url"


def test_frames_of_an_old_video_that_cannot_be_read_are_left_out(gateway: Gateway) -> None:
    good, bad = uri("image/png", PNG), uri("image/png", b"<svg/>")
    for frames, sent in (([good, bad, good], [good, good]), ([bad, bad], None)):
        messages = [{"role": "user", "content": [{"video": frames}]}, ANSWER, {"role": "user", "content": "go on"}]
        answer = gateway.post("/v1/chat", {"model": "m", "stream": False, "messages": messages})
        content = gateway.sent()["messages"][0]["content"]
        if sent:
            assert content == [{"type": "video", "video": sent}]
        else:
            assert "![video]" in str(content) or "[video:" in str(content)
        assert [warning.partition(" was ")[0] for warning in answer.json["warnings"]] == [
            f"messages[0].content[0].video[{place}]" for place, frame in enumerate(frames) if frame == bad
        ]


def test_audio_of_the_history_whose_format_is_unknown_is_named(gateway: Gateway) -> None:
    part = {"type": "audio_url", "audio_url": {"url": uri("application/octet-stream", b"\0" * 40)}}
    body = {"model": "audio", "format": "openai", "stream": False, "messages": in_earlier_turn(part)}
    answer = gateway.post("/v1/chat", body)
    assert "[audio: audio (not sent: must have a format" in gateway.sent()["messages"][0]["content"]
    assert len(answer.json["warnings"]) == 1
    assert gateway.post("/v1/chat", {**body, "messages": [{"role": "user", "content": [part]}]}).status == 400


def test_an_assistant_message_that_was_only_an_image_is_not_empty(gateway: Gateway) -> None:
    for model, text in (("blind", "[image: cat.png]"), ("m", "[image: image.png (not sent: is an HTML page")):
        url = "https://files.test/cat.png" if model == "blind" else uri("image/png", b"<html>")
        messages = [USER, {"role": "assistant", "content": [image(url)]}, USER]
        body = {"model": model, "format": "openai", "stream": False, "messages": messages}
        answer = gateway.post("/v1/chat", body)
        assert answer.status == 200, answer.body
        assert text in json.dumps(gateway.sent()["messages"][1]["content"])
        assert len(answer.json["warnings"]) == 1


def test_the_words_are_in_the_language_of_a_qwen_conversation(gateway: Gateway) -> None:
    messages = [
        {"role": "user", "content": [{"text": "你好"}, {"image": uri("image/png", b"<html>")}]},
        {"role": "assistant", "content": "看到了"},
        {"role": "user", "content": "继续"},
    ]
    gateway.post("/v1/chat", {"model": "m", "stream": False, "messages": messages})
    assert "[图片：image.png（未发送：is an HTML page, not an image）]" in str(gateway.sent()["messages"][0]["content"])


@pytest.mark.parametrize("data", ["", "!", "/etc/passwd", "iVBORw0KGgo…", "data:image/png;base64,"])
@pytest.mark.parametrize("kind", ["image", "document"])
def test_data_that_are_no_base64_end_no_conversation_of_anthropics_api(gateway: Gateway, kind: str, data: str) -> None:
    media_type = "image/png" if kind == "image" else "application/pdf"
    block = {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    old = [
        USER,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [block]}]},
        ANSWER,
        USER,
    ]
    if data != "/etc/passwd" or kind == "image":  # as a document, these letters are some bytes of text
        answer = gateway.post("/v1/messages", {"model": "m", "max_tokens": 5, "messages": old})
        assert answer.status == 200, answer.body
        assert "not sent: " in json.dumps(gateway.sent()["messages"])
        answer = gateway.post(
            "/v1/messages", {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [block]}]}
        )
        assert (answer.status, answer.json["error"]["param"]) == (400, "messages[0].content[0].source.data")


def test_a_data_uri_where_base64_is_expected_is_read(gateway: Gateway) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": uri("image/png", PNG)}
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    gateway.post("/v1/messages", {"model": "m", "max_tokens": 5, "messages": messages})
    assert gateway.sent()["messages"][0]["content"][0]["image_url"]["url"] == uri("image/png", PNG)


LOCAL = "file:///home/me/cat.png"
THOUGHT_AND_CALL = [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}]
BLOCKS: Json = {
    "anthropic": {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
    "responses": {"type": "input_image", "file_id": "file-1"},
    "agentscope": {"type": "image", "source": {"type": "url", "url": LOCAL}},
    "agentscope2": {"type": "data", "source": {"type": "url", "url": LOCAL, "media_type": "image/png"}},
    "qwen": {"image": LOCAL},
    "openai": image(LOCAL),
}
WRITTEN = {"agentscope": {"name": "u"}, "agentscope2": {"name": "u"}}
SAID = {"responses": "output_text"}


def talk(name: str, part: Json) -> list[Json]:
    """A question about a medium, and its answer."""
    more = WRITTEN.get(name, {})
    said = {"text": "seen"} if name == "qwen" else {"type": SAID.get(name, "text"), "text": "seen"}
    return [{"role": "user", "content": [part], **more}, {"role": "assistant", "content": [said], **more}]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_format_goes_on_after_a_medium_that_its_schema_refuses(gateway: Gateway, name: str) -> None:
    old = talk(name, BLOCKS[name])
    said = {"text": "and now?"} if name == "qwen" else {"type": "text", "text": "and now?"}
    question = {"role": "user", "content": [said], **WRITTEN.get(name, {})}
    body = {"model": "m", "format": name, "reply_format": "qwen", "stream": False}
    answer = gateway.post("/v1/chat", {**body, "messages": [*old, question]})
    assert answer.status == 200, answer.body
    sent = gateway.sent()["messages"]
    assert sent[0]["content"].startswith("[image: ") and "(not sent: " in sent[0]["content"]
    assert sent[-1]["content"] == "and now?"
    [warning] = answer.json["warnings"]
    assert warning.startswith("messages[0].content[0].") and " was not sent: " in warning
    newest = {"role": "user", "content": [said, BLOCKS[name]], **WRITTEN.get(name, {})}
    answer = gateway.post("/v1/chat", {**body, "messages": [*old, newest]})
    assert answer.status == 422
    assert [one["param"][:23] for one in answer.json["error"]["violations"]] == ["messages[2].content[1]."]
    assert not gateway.server.requests


def test_the_faces_go_on_after_media_that_their_schemas_refuse(gateway: Gateway) -> None:
    stored = {"type": "image", "source": {"type": "file", "file_id": "file-1"}}
    block = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "a page"}, stored]}
    messages = [USER, *THOUGHT_AND_CALL, {"role": "user", "content": [block, {"type": "text", "text": "go on"}]}]
    answer = gateway.post("/v1/messages", {"model": "m", "max_tokens": 9, "messages": messages})
    assert answer.status == 200, answer.body
    assert answer.json["parley"]["warnings"][0].startswith("messages[2].content[0].content[1].source was not sent: ")
    assert "a page" in str(gateway.sent()["messages"][2]["content"])
    assert gateway.post("/v1/messages/count_tokens", {"model": "m", "messages": messages}).status == 200

    output = [{"type": "input_text", "text": "a page"}, {"type": "input_image", "image_url": "blob:https://a.test/1"}]
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": output},
    ]
    answer = gateway.post("/v1/responses", {"model": "m", "store": False, "input": items})
    assert answer.status == 200, answer.body
    assert answer.json["parley"]["warnings"][0].startswith("input[2].output[1].image_url was not sent: ")
    gateway.sent()
    asking = {"role": "user", "content": [output[1]]}
    answer = gateway.post("/v1/responses", {"model": "m", "store": False, "input": [*items, asking]})
    assert answer.json["error"]["param"] == "input[3].content[0].image_url"


def test_other_mistakes_are_reported_with_the_media(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": [image(LOCAL)]}, ANSWER, {"role": "user", "content": 5}]
    answer = gateway.post("/v1/chat", {"model": "m", "format": "openai", "messages": messages})
    assert answer.status == 400
    assert [one["param"] for one in answer.json["error"]["violations"]] == [
        "messages[0].content[0].image_url.url",
        "messages[2].content",
    ]


def test_thousands_of_media_that_are_refused_take_a_moment(gateway: Gateway) -> None:
    old = [{"role": "user", "content": [image(LOCAL), image("")]}, ANSWER] * 400
    answer = gateway.post("/v1/chat", {"model": "m", "format": "openai", "stream": False, "messages": [*old, USER]})
    assert answer.status == 200
    assert len(answer.json["warnings"]) <= 201
    gateway.sent()


def test_a_medium_without_content_is_words_and_one_in_a_wrong_place_is_refused(gateway: Gateway) -> None:
    for part in ({"type": "input_image"}, {"type": "input_file", "filename": "a.pdf"}):
        items = [{"role": "user", "content": [part]}, {"role": "assistant", "content": "seen"}, USER]
        answer = gateway.post("/v1/responses", {"model": "m", "store": False, "input": items})
        assert answer.status == 200, answer.body
        assert "(not sent: must have its content in " in str(gateway.sent()["messages"][0])
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    messages = [USER, {"role": "assistant", "content": [document]}, USER]
    answer = gateway.post("/v1/messages", {"model": "m", "max_tokens": 9, "messages": messages})
    assert answer.json["error"]["param"] == "messages[1].content[0]"
