"""What a client writes into a path or a model's name by mistake, a key or a token, is not logged."""

import pytest
from app.observe.logs import log_plain_request

from tests.each_case import each_case
from tests.in_process_gateway import Running

SECRETS = (
    "sk-proj-abcdefghijklmnopqrstuvwx",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhYmMifQ.c2lnbmF0dXJl",
)
PATHS = ("/v1/models/{}", "/v1/responses/{}", "/{}/chat", "/v1beta/models/m:generateContent?key={}")


@each_case("secret", SECRETS)
def test_no_line_has_a_secret(secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    hi = [{"role": "user", "content": "hi"}]
    with Running() as gateway:
        for path in PATHS:
            gateway.get(path.format(secret))
            gateway.post("/v1/chat", {"model": path.format(secret), "messages": hi})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 * len(PATHS) and not any(secret[4:] in line for line in lines)


def test_a_query_that_was_encoded_is_not_logged_and_a_path_is(caplog: pytest.LogCaptureFixture) -> None:
    paths = {
        "/v1beta/models/m:x?key=k3y": "/v1beta/models/m:x?…",
        "/v1/models/org/name-1.5": "/v1/models/org/name-1.5",
        "/v1/models/skill-of-a-model-with-a-long-name": "/v1/models/skill-of-a-model-with-a-long-name",
    }
    with caplog.at_level("INFO", "parley.request"):
        for path in paths:
            log_plain_request("req-1", "GET", path, 404, "not_found", 0.1)
    assert [record.__dict__["fields"]["path"] for record in caplog.records] == list(paths.values())
