"""Images and files as content blocks, and those that the API does not take."""

from typing import Any

from app.chat.messages import Media
from app.upstream.messages.media import find_problem, write_media

from tests.each_case import each_case


@each_case(
    ("part", "source", "warned"),
    [
        (Media("image", ("http://x.test/a",)), {"type": "url", "url": "http://x.test/a"}, False),
        (Media("image", ("data:,a",)), {"type": "base64", "media_type": "image/png", "data": "YQ=="}, False),
        (
            Media("image", ("data:image/gif;base64,YQ==",), detail="low"),
            {"type": "base64", "media_type": "image/gif", "data": "YQ=="},
            True,
        ),
        (Media("file", ("http://x.test/a.pdf",)), {"type": "url", "url": "http://x.test/a.pdf"}, False),
        (
            Media("file", ("data:text/csv;base64,YQ==",)),
            {"type": "text", "media_type": "text/plain", "data": "a"},
            False,
        ),
    ],
)
def test_a_medium_has_the_source_of_its_url(part: Media, source: Any, warned: bool) -> None:
    block, warning = write_media(part)
    assert block["source"] == source
    assert (warning is not None) is warned


@each_case(
    ("part", "problem"),
    [
        (Media("audio", ("http://x.test/a",)), "not audio"),
        (Media("image", ("http://x.test/a",)), None),
        (Media("image", ("ftp://x.test/a",)), "HTTP"),
        (Media("image", ("data:image/png;base64,!",)), "base64"),
        (Media("image", ("data:image/png,a",)), None),
        (Media("file", ("data:application/zip;base64,YQ==",)), "application/zip"),
        (Media("file", ("data:application/pdf;base64,YQ==",)), None),
    ],
)
def test_what_the_api_does_not_take_is_named(part: Media, problem: str | None) -> None:
    found = find_problem(part)
    assert found is None if problem is None else found is not None and problem in found
