"""What a caller reads of a URL that is not one."""

from app.formats.media_urls import describe_wrong_url, detect_base64

from tests.each_case import each_case

PNG = "iVBORw0KGgoA" + "A" * 60


@each_case(
    ("value", "start"),
    [
        (PNG, "must be an http(s) URL or a data URI: this is base64, so write data:image/png;base64, before it"),
        ("A" * 80, "must be an http(s) URL or a data URI: this is base64, so write data:<media type>;base64, before"),
        ("", "must not be empty"),
        ("www.example.com/a.png", "must be an http(s) URL or a data URI: files of the gateway's machine are never"),
    ],
)
def test_a_wrong_url_is_described_with_what_to_write(value: str, start: str) -> None:
    assert describe_wrong_url(value).startswith(start)


def test_the_media_type_of_base64_is_detected_where_it_can_be_read() -> None:
    assert detect_base64(PNG) == "image/png"
    assert detect_base64("A" * 80) is None
    assert detect_base64("?" * 80) is None
