"""Pages for people: nothing in them comes from elsewhere."""

import re
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest

from tests.in_process_gateway import Answer, Running

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running() as running:
        yield running


def references(page: Answer) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]+)"', page.body.decode())


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_refers_only_to_what_this_gateway_serves(gateway: Running, path: str) -> None:
    page = gateway.get(path, BROWSER)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert references(page)
    for reference in references(page):
        assert not re.match(r"[a-z]+:|/", reference), "an address of its own, or one that a proxy's prefix breaks"
        assert gateway.get(urljoin(path, reference)).status == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_may_load_nothing_from_elsewhere_and_run_nothing_inline(gateway: Running, path: str) -> None:
    policy = dict(
        one.strip().split(" ", 1) for one in gateway.get(path, BROWSER).headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy.get("script-src", "'self'") == policy.get("connect-src", "'self'") == "'self'"
    assert not re.search(r"https?:|\*|unsafe-eval", " ".join(policy.values()))


def test_the_documentation_page_loads_the_document_and_sends_it_to_no_validator(gateway: Running) -> None:
    script = gateway.get("/docs/start.js").body.decode()
    assert 'url: "openapi.json"' in script and "validatorUrl: null" in script
    assert gateway.get("/openapi.json").json["info"]["title"] == "Parley"


def test_a_client_that_is_no_browser_gets_the_links_as_json(gateway: Running) -> None:
    answer = gateway.get("/", {"accept": "*/*"})
    assert answer.json["name"] == "parley"
    assert {"/", "/docs"} <= {*answer.json["links"]}
    assert all(gateway.get(path).status == 200 for path in answer.json["links"])


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/swagger-ui-bundle.js"])
def test_pages_are_no_part_of_the_api(gateway: Running, path: str) -> None:
    assert path not in gateway.get("/openapi.json").json["paths"]
