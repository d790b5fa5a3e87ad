"""Which tags a request has."""

from app.usage.tags import MAX_TAG, MAX_TAGS, join_tags, read_tags, split_tags

from tests.each_case import each_case


@each_case(
    ("header", "metadata", "tags"),
    [
        (None, None, ()),
        (None, {"x": "y"}, ()),
        (b"b, a", None, ("a", "b")),
        (None, {"tags": "a,b, ,"}, ("a", "b")),
        (b"a", {"tags": "b,a"}, ("a", "b")),
        (b"", {"tags": ""}, ()),
        ("prüfung".encode(), None, ("prüfung",)),
    ],
)
def test_tags_come_from_a_header_and_from_metadata(
    header: bytes | None, metadata: dict[str, str] | None, tags: tuple[str, ...]
) -> None:
    assert read_tags(header, metadata) == (tags, [])


@each_case("tag", ["x" * (MAX_TAG + 1), "a\x00b", "a\u202eb"])
def test_what_is_no_tag_does_not_count_and_is_told(tag: str) -> None:
    tags, (warning,) = read_tags(None, {"tags": f"a,{tag}"})
    assert tags == ("a",) and warning.startswith("metadata.tags: a tag has 1 to 64 printable characters")


def test_a_request_has_a_bounded_number_of_tags() -> None:
    names = [f"t{number:02}" for number in range(MAX_TAGS + 1)]
    tags, (warning,) = read_tags(",".join([*names, names[0]]).encode(), None)
    assert (
        tags == tuple(names[:-1]) and warning == "x-parley-tags: a request has at most 16 tags, so 't16' does not count"
    )


def test_joined_tags_are_split_again() -> None:
    assert split_tags(join_tags(("a", "b"))) == ["a", "b"]
    assert split_tags(join_tags(())) == [""]
