from app.chat.web_domains import allows_url, find_domain_mistake

from tests.each_case import each_case


@each_case(
    ("url", "entry", "fits"),
    [
        ("https://a.example/x", "a.example", True),
        ("https://www.a.example/x", "a.example", True),
        ("https://nota.example/x", "a.example", False),
        ("https://A.EXAMPLE./x", "a.example", True),
        ("https://a.example:8443/x", "a.example", True),
        ("https://a.example/docs/1", "a.example/docs", True),
        ("https://a.example/", "a.example/docs", False),
        ("https://a.example", "a.example/", True),
        ("https://a.example/v1/docs/1", "a.example/*/docs", True),
        ("https://a.example/docs", "a.example/*/docs", False),
        ("https://[bad/x", "a.example", False),
    ],
)
def test_an_allowed_domain_is_one_with_its_subdomains_and_the_beginning_of_a_path(
    url: str, entry: str, fits: bool
) -> None:
    assert allows_url(url, [entry], []) is fits


def test_a_blocked_domain_is_left_out_and_empty_lists_say_nothing() -> None:
    assert not allows_url("https://www.b.example/x", [], ["b.example"])
    assert allows_url("https://notb.example/x", [], ["b.example"])
    assert allows_url("not a URL", [], [])


@each_case(
    ("entry", "right"),
    [
        ("a.example", True),
        ("a.example/docs/*", True),
        ("https://a.example", False),
        ("a.example:80", False),
        ("*.example", False),
        ("", False),
        ("a.example?q", False),
    ],
)
def test_an_entry_is_a_domain_without_scheme_and_port(entry: str, right: bool) -> None:
    assert (find_domain_mistake(entry) is None) is right
