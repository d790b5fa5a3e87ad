"""The playground's files over HTTP. What the page does is tested in a browser, in tests/browser."""

from collections.abc import Iterator

import pytest

from tests.in_process_gateway import SERVER, Running

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
DIGEST = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running() as running:
        yield running


def test_a_browser_gets_the_playground_and_other_clients_the_links(gateway: Running) -> None:
    page = gateway.get("/", BROWSER)
    assert (page.status, page.headers["vary"]) == (200, "accept")
    assert b'src="playground/main.js"' in page.body
    assert gateway.get("/", {"accept": "application/json"}).json["name"] == "parley"
    head = gateway.ask("HEAD", "/")
    assert (head.status, head.body) == (200, b"")


def test_the_page_may_run_only_scripts_of_the_gateway_and_write_only_sanitized_html(gateway: Running) -> None:
    policy = gateway.get("/", BROWSER).headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"} <= {*policy}
    assert {"require-trusted-types-for 'script'", "trusted-types dompurify"} <= {*policy}
    assert not any("unsafe" in rule or "http" in rule for rule in policy)


def test_a_file_is_sent_again_only_if_it_has_changed(gateway: Running) -> None:
    first = gateway.get("/playground/main.js")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert first.headers["x-content-type-options"] == "nosniff"
    again = gateway.get("/playground/main.js", {"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_only_files_of_the_playground_are_sent(gateway: Running) -> None:
    for name in ("missing.js", "", "..%2ffiles.py", "../files.py", "%2e%2e/files.py", "/etc/passwd", "views"):
        assert gateway.get(f"/playground/{name}").status == 404, name


def test_the_page_and_its_files_need_no_key() -> None:
    with Running({"demo": True, "keys": {"me": {"sha256": DIGEST}}}) as gateway:
        assert gateway.get("/", BROWSER).status == 200
        assert gateway.get("/playground/main.js").status == 200
        found = gateway.get("/playground/gateway.json").json
        assert (found["demo"], found["needs_key"], "vllm" in found["kinds"]) == (True, True, True)
        assert found["default_model"] is None
        assert found["responsible"]["gateway"]["rate_limit"] == "policy"
        assert found["responsible"]["upstream"]["rate_limit"] == "upstream"
        assert found["responsible"]["other_names"]["model_not_found"] == "unknown_model"
        assert "connection_refused" in found["responsible"]["network_causes"]
        assert gateway.get("/v1/status").status == 401


def test_a_gateway_with_a_model_server_is_not_presented_as_a_demo() -> None:
    with Running(SERVER | {"demo": True}) as gateway:
        assert gateway.get("/playground/gateway.json").json["demo"] is False


def test_a_setting_turns_it_off() -> None:
    with Running({"demo": True, "server": {"playground": False}}) as gateway:
        page = gateway.get("/", BROWSER)
        assert b"<script" not in page.body and b'href="docs"' in page.body
        assert gateway.get("/playground/main.js").status == 404
        assert gateway.post("/v1/upstreams/check", {"base_url": "http://127.0.0.1:1/v1"}).status == 404


def test_its_files_are_no_part_of_the_api(gateway: Running) -> None:
    assert [path for path in gateway.get("/openapi.json").json["paths"] if path.startswith("/playground")] == []
