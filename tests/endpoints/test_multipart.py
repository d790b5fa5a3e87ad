import pytest
from app.endpoints.multipart import MAX_FIELD_BYTES, MultipartScan, find_boundary
from app.errors import BadRequest, ParleyError, TooLarge

from tests.cuts import bytewise, every_cut, whole
from tests.each_case import each_case


def field(name: str, value: bytes = b"v", more: str = "") -> bytes:
    head = f'--XX\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


FILE = field("file", b"\r\n--X\r\n\x00\xff--XX", '; filename="model.wav"\r\ncontent-type: audio/wav')
END = b"--XX--\r\n"


def scan(parts: list[bytes], max_parts: int = 64) -> MultipartScan:
    read = MultipartScan(b"XX", max_parts)
    for part in parts:
        read.feed(part)
    read.close()
    return read


@each_case("data", [FILE + field("model", b"w") + END, field("model", b"w") + FILE + END + b"epilogue"])
def test_the_model_is_found_before_and_behind_the_file_however_the_form_is_cut(data: bytes) -> None:
    for parts in [whole(data), bytewise(data), *every_cut(data)]:
        read = scan(parts)
        assert read.fields == {b"model": b"w"}
        assert read.model_span is not None
        begin, end = read.model_span
        assert data[begin - 4 : end + 2] == b"\r\n\r\nw\r\n"
        assert data[: read.end].endswith(b"--XX--")


def test_fields_that_are_read_are_told_from_others() -> None:
    read = scan([field("prompt", b"") + field("url", b"a") + field("n", b"2") + field("url", b"b") + END])
    assert read.fields == {b"prompt": b"", b"n": b"2"}
    assert read.others == [(b"url", b"a"), (b"url", b"b")]
    assert read.model_span is None


@each_case(
    ("data", "kind"),
    [
        (b"", BadRequest),
        (field("a"), BadRequest),
        (b"x" + field("a") + END, BadRequest),
        (b"\r\n" + field("a") + END, BadRequest),
        (b"x" * 100, BadRequest),
        (field("a", b"\r\n--XXY") + END, BadRequest),
        (field("model") + field("model") + END, BadRequest),
        (field("Model") + END, BadRequest),
        (field("model", b"w", '; filename="m"') + END, BadRequest),
        (field("a", b"w", '; name="model"') + END, BadRequest),
        (field("a", b"w", "; name*=utf-8''model") + END, BadRequest),
        (b"--XX\r\ncontent-type: text/plain\r\n\r\nv\r\n" + END, BadRequest),
        (b"--XX\r\n" + b"x" * 9000, BadRequest),
        (field("a", b"x" * (MAX_FIELD_BYTES + 1)) + END, TooLarge),
        (field("a") * 3 + END, TooLarge),
    ],
)
def test_a_form_that_servers_could_read_in_different_ways_is_refused(data: bytes, kind: type[ParleyError]) -> None:
    with pytest.raises(kind):
        scan([data], max_parts=2)


@each_case(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=XX", b"XX"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
        ("multipart/form-data", None),
        ("application/json; boundary=XX", None),
    ],
)
def test_the_boundary_is_in_the_type_of_the_body(content_type: str, boundary: bytes | None) -> None:
    assert find_boundary(content_type) == boundary
