"""What the media step makes of media by a profile is what the renderer of the same profile sends."""

from typing import Any

from app.chat.attachments import Inlined
from app.chat.messages import ChatRequest, Media, MediaKind, Message, Text
from app.errors import InvalidInput
from app.profiles import KINDS, Profile
from app.steps.media import MediaRequest, media_requests, rewrite_media
from app.upstream.chat_completions import request as upstream_request

from tests.each_case import each_case

WEB, PNG, WAV = "https://h/x", "data:image/png;base64,iVBORw0KGgo=", "data:audio/wav;base64,AAAA"
MEDIA: dict[MediaKind, Media] = {
    "image": Media("image", (WEB,)),
    "audio": Media("audio", (WEB,)),
    "video": Media("video", (WEB, PNG), frames=True),
    "file": Media("file", ("https://h/a.pdf",)),
}


def request_of(part: Media) -> ChatRequest:
    return ChatRequest("m", (Message("user", (Text("look"), part)),))


def gathered(need: MediaRequest) -> Inlined:
    if need.purpose == "raw":
        return Inlined("AAAA", "wav")
    return Inlined(WAV if need.media == "audio" else PNG)


def sent(request: ChatRequest, profile: Profile) -> list[dict[str, Any]]:
    body, _ = upstream_request.build(request, "m", profile)
    content = body["messages"][0]["content"]
    assert isinstance(content, list)
    return content[1:]


TAKEN = [(kind, medium) for kind, row in KINDS.items() for medium in row.media]


@each_case(("kind", "medium"), TAKEN)
def test_what_the_step_gathered_is_never_refused(kind: str, medium: MediaKind) -> None:
    request, profile = request_of(MEDIA[medium]), KINDS[kind]
    results = {need: gathered(need) for need in media_requests(request, profile)}
    assert sent(rewrite_media(request, profile, results, "en")[0], profile)


@each_case(("kind", "medium"), TAKEN)
def test_bytes_are_wanted_of_exactly_the_remote_media_that_are_refused_without_them(
    kind: str, medium: MediaKind
) -> None:
    part, profile = MEDIA[medium], KINDS[kind]
    needs = [need for need in media_requests(request_of(part), profile) if need.purpose != "check"]
    remote = [need for need in needs if need.url.startswith("https:")]
    try:
        sent(request_of(part), profile)
        refused = False
    except InvalidInput:
        refused = True
    assert bool(remote) is refused


def test_a_file_is_sent_under_its_own_name() -> None:
    request, profile = request_of(MEDIA["file"]), KINDS["openai"]
    [need] = media_requests(request, profile)
    [part] = sent(rewrite_media(request, profile, {need: Inlined(PNG)}, "en")[0], profile)
    assert part == {"type": "file", "file": {"filename": "a.pdf", "file_data": PNG}}


def test_sound_whose_format_has_no_known_name_is_made_bare_by_its_subtype() -> None:
    request, profile = request_of(MEDIA["audio"]), KINDS["openai"]
    [need] = media_requests(request, profile)
    [part] = sent(rewrite_media(request, profile, {need: Inlined("data:audio/aac;base64,AAAA")}, "en")[0], profile)
    assert part == {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "aac"}}
