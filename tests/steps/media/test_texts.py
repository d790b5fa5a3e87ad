"""The text of a file as a model gets it."""

import pytest
from app.chat.attachments import FileText, Section, UnreadSection
from app.chat.messages import ChatRequest, Media, Message, Text
from app.profiles import Profile
from app.steps.media import media_requests, rewrite_media
from app.steps.media.texts import find_losses, render_file_text

from tests.each_case import each_case
from tests.steps.media.sample_requests import TEXT, single_message


@pytest.mark.parametrize(
    ("file", "item_parts"),
    [
        (FileText((Section("a,b", 1, "Blatt"),), "sheet"), "[工作表 1：Blatt]\na,b"),
        (FileText((Section("x", 2),), "slide"), "[第 2 张幻灯片]\nx"),
        (FileText((Section("plain"),)), "plain"),
        (FileText((), "page", scanned=True), "[扫描版 PDF：各页均为图片，没有可读取的文字]"),
    ],
)
def test_a_files_parts_are_marked_in_the_callers_language(file: FileText, item_parts: str) -> None:
    request = single_message(Media("file", ("https://h/a",)))
    [need] = media_requests(request, TEXT.model_copy(update={"file_text": True}))
    result, _ = rewrite_media(request, TEXT.model_copy(update={"file_text": True}), {need: file}, "zh")
    assert result.messages[0].parts[1] == Text(f'\n<file name="a">\n{item_parts}\n</file>\n')


WEB = "https://h/a"


@each_case(
    ("file", "losses"),
    [
        (FileText((Section("x", 1),), "page"), []),
        (FileText((), "page", scanned=True), ["the PDF is scanned"]),
        (FileText((Section(" \n", 1),)), ["the file has no text"]),
        (
            FileText((Section("x", 1),), "page", unread=(UnreadSection(2, "it is damaged"),)),
            ["page 2 could not be read: it is damaged"],
        ),
        (FileText((Section("x", 1),), "page", pictured=(2, 4)), ["these pages are images without text"]),
        (FileText((Section("x", 1),), "slide", 3, cut=True), ["the text was cut", "3 more slides were left out"]),
        (
            FileText((), "page", unread=tuple(UnreadSection(at, "x") for at in range(30))),
            [*[f"page {at} could not be read" for at in range(20)], "10 more pages could not be read"],
        ),
    ],
)
def test_what_of_a_file_is_not_sent_is_a_warning(file: FileText, losses: list[str]) -> None:
    found = ChatRequest("m", (Message("user", (Media("file", (WEB,), path="p"),)),))
    profile = Profile(media=())
    [need] = media_requests(found, profile)
    _, warnings = rewrite_media(found, profile, {need: file}, "en")
    assert len(warnings) == len(losses)
    assert all(warning.startswith(f"p: {loss}") for warning, loss in zip(warnings, losses, strict=True))


def test_pages_that_could_not_be_read_stand_in_their_place() -> None:
    request = single_message(Media("file", ("https://h/a.pdf",)))
    profile = Profile(media=())
    sections = (Section("one", 1), Section("four", 4))
    file = FileText(sections, "page", unread=(UnreadSection(2, "it is damaged"),), pictured=(3,))
    [need] = media_requests(request, profile)
    text = rewrite_media(request, profile, {need: file}, "en")[0].messages[0].parts[1]
    assert isinstance(text, Text)
    assert text.text.split("\n")[2:-2] == [
        *("[Page 1]", "one", "[Page 2]", "[this part could not be read: it is damaged]"),
        *("[Page 3]", "[this page is an image without text]", "[Page 4]", "four"),
    ]


PASSAGES = FileText((Section("two", 2), Section("five", 5)), "page", passages=(2, 7), passage_count=9)


def test_the_passages_of_a_searched_file_are_counted_and_those_that_were_put_in_are_named() -> None:
    assert find_losses(PASSAGES) == ["passages 2, 7 of 9 were put in, those that match the question best: pages 2, 5"]
    text = render_file_text("a.pdf", PASSAGES, "en").split("\n")
    assert text[1] == '<file name="a.pdf">'
    assert "2" in text[2] and "9" in text[2]
    assert text[3:-2] == ["[Page 2]", "two", "[Page 5]", "five"]


def test_passages_of_a_file_without_pages_have_only_their_numbers() -> None:
    file = FileText((Section("two"),), passages=(2,), passage_count=9)
    assert find_losses(file) == ["passages 2 of 9 were put in, those that match the question best"]


def test_a_file_of_which_no_passage_matches_says_so() -> None:
    file = FileText((), "page", passage_count=9, search_problem="the search failed")
    assert find_losses(file)[-2:] == [
        "none of its 9 passages was put in: none matches the question",
        "the search failed",
    ]
    assert len(render_file_text('a"b', file, "zh").split("\n")) == 5
    assert '<file name="a\'b">' in render_file_text('a"b', file, "zh")
