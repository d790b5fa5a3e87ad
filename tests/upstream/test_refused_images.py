"""Conversations with more images than a server takes are sent once more with the newest ones."""

from typing import Any

import msgspec
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused

from tests.each_case import each_case

Json = dict[str, Any]
WORDS = {"type": "text", "text": "[an image of an earlier turn]"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def repair(messages: list[Json], message: str) -> Any:
    body = msgspec.json.encode({"model": "m", "messages": messages})
    repaired = repair_refused(find_api("chat_completions"), body, Fault("invalid_request", message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)["messages"]


def say(role: str, *parts: Json) -> Json:
    return {"role": role, "content": list(parts)}


@each_case(
    "message",
    [
        # CherryHQ/cherry-studio#20030, microsoft/vscode#306919, anomalyco/opencode#48647, anthropics/claude-code#24541
        "At most 2 image(s) may be provided in one prompt.",
        "Too many images in request: 3 images provided, but the model supports a maximum of 2 images.",
        "Request contains 3 images, exceeding the maximum of 2 allowed per request",
        "too many images and documents: 3 + 0 > 2",
        "Too much media: 0 document pages + 3 images > 2",
        "Too many images in request. Max is 2.",
    ],
)
def test_the_oldest_images_become_words(message: str) -> None:
    old, new = say("user", IMAGE, IMAGE), say("user", IMAGE)
    assert repair([old, say("assistant"), new], message) == [say("user", WORDS, IMAGE), say("assistant"), new]
    assert repair([new, say("assistant"), new], message) is None
    assert repair([say("user", IMAGE, IMAGE, IMAGE)], message) is None, "the user asks about all of them"


def test_images_of_results_are_counted() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE, IMAGE]}
    left = {**result, "content": [WORDS, IMAGE]}
    assert repair([say("user", result)], "At most 1 image(s) may be provided in one prompt.") == [say("user", left)]


def test_another_refusal_is_about_no_number_of_images() -> None:
    messages = [say("user", IMAGE, IMAGE), say("user")]
    assert repair(messages, "at most 1 file") is None
    assert repair(messages, "image exceeds 5 MB maximum: 6000 bytes > 5000 bytes") is None
    blind = {**WORDS, "text": "[an image, which this model cannot see]"}
    assert repair(messages, "At most 0 image(s) may be provided in one prompt.") == [
        say("user", blind, blind),
        messages[1],
    ]
