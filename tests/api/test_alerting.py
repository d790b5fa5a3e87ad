"""Alerts of a running gateway: what is noticed, and who sends it."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from app.access.key_ring import hash_key
from app.api.alerting import Alerting, ErrorRates, read_certificate_end
from app.cli import main
from app.config.settings import Settings
from app.limits import Limiter, Limits
from app.limits.values import Rule
from app.observe.request_log.capture import ByteBudget
from app.observe.request_record import RequestRecord
from app.state.leases import keep_value, release_lease, take_lease
from app.state.sqlite import SqliteDatabase
from msgspec.structs import replace

from tests.certificates import certificate
from tests.in_process_gateway import SERVER, ModelServer, Running, streamed
from tests.token_issuer import AUDIENCE, ISSUER, IdentityProvider, make_claims, sign

CHAT = {"model": "m", "stream": False, "messages": [{"role": "user", "content": "Hi"}]}
PRICE = {"input": 0, "output": 1_000_000}
APP = {"authorization": "Bearer app"}


class Server(ModelServer):
    """A model server and a receiver of alerts."""

    def __init__(self) -> None:
        super().__init__(self._answer_all)
        self.alerts: list[dict[str, Any]] = []
        self.fails = False

    def _answer_all(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "hooks.test":
            self.alerts.append(json.loads(request.content))
            return httpx.Response(200)
        if self.fails:
            return httpx.Response(500)
        usage = b'"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}'
        last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],%b}\n\n' % usage
        return streamed(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', last, b"data: [DONE]\n\n")


def alerting_of(gateway: Running) -> Alerting:
    assert gateway.context.alerting is not None
    return gateway.context.alerting


def check(gateway: Running) -> None:
    """Look once, and wait until all is sent."""

    async def look() -> None:
        alerting = alerting_of(gateway)
        await alerting.check()
        for receiver in alerting._receivers.values():
            while (task := receiver._task) is not None:
                await task

    gateway.loop.run_until_complete(look())


def with_alerts(**more: Any) -> dict[str, Any]:
    return {**SERVER, "alerts": {"ops": {"url": "http://hooks.test/x", "api": "json"}}, **more}


def test_a_budget_is_an_alert_at_each_percentage_once(tmp_path: Path) -> None:
    server = Server()
    models = {"m": {"upstreams": ["local"], "price": PRICE}}
    keys = {"app": {"sha256": hash_key("app"), "limits": {"spend_per_day": 10}}}
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    with Running(with_alerts(models=models, keys=keys, state=state), server) as gateway:
        spend = {**CHAT, "max_tokens": 5}
        for expected in (0, 1, 2, 2):
            gateway.post("/v1/chat/completions", spend, APP)
            check(gateway)
            assert len(server.alerts) == expected
        first, second = server.alerts
        assert (first["alert"], first["status"]) == ("ParleyBudget", "firing")
        assert first["labels"] == {
            "scope": "key",
            "name": "app",
            "owner": "the API key 'app'",
            "percent": "80",
            "period": "day",
        }
        assert first["summary"] == "the API key 'app' has spent 80 % of its limit per day."
        assert second["labels"]["percent"] == "100"
    with Running(with_alerts(models=models, keys=keys, state=state), server) as gateway:
        check(gateway)
        assert len(server.alerts) == 2, "a restart sends nothing twice"


def test_a_restart_ends_no_alert_of_a_key_that_was_made_over_http(tmp_path: Path) -> None:
    server, admin = Server(), "key-of-an-administrator"
    models = {"m": {"upstreams": ["local"], "price": PRICE}}
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    settings = with_alerts(models=models, state=state, server={"admin_key": admin})
    with Running(settings, server) as gateway:
        asked = {"name": "app", "limits": {"spend_per_day": 10}}
        made = gateway.post("/v1/keys", asked, {"authorization": f"Bearer {admin}"})
        caller = {"authorization": f"Bearer {json.loads(made.body)['key']}"}
        for _ in range(3):
            gateway.post("/v1/chat/completions", {**CHAT, "max_tokens": 5}, caller)
            check(gateway)
        assert [(alert["status"], alert["labels"]["percent"]) for alert in server.alerts] == [
            ("firing", "80"),
            ("firing", "100"),
        ]
    with Running(settings, server) as gateway:
        check(gateway)
        assert len(server.alerts) == 2, server.alerts[2:]


def test_a_server_that_is_down_is_an_alert_after_two_minutes_and_its_return_too() -> None:
    server, now = Server(), [1_800_000_000.0]
    with Running(with_alerts(), server) as gateway:
        alerting_of(gateway)._clock = lambda: now[0]
        server.fails = True
        for _ in range(6):
            gateway.post("/v1/chat/completions", CHAT)
        check(gateway)
        assert server.alerts == []
        now[0] += 120
        check(gateway)
        names = {alert["alert"]: alert for alert in server.alerts}
        assert names["ParleyUpstreamUnavailable"]["labels"] == {"upstream": "local"}
        assert "parley_alerts_total" in gateway.get("/metrics").body.decode()
        server.fails = False
        assert gateway.post("/v1/chat/completions", CHAT).status == 200
        check(gateway)
        ended = [alert["alert"] for alert in server.alerts if alert["status"] == "resolved"]
        assert "ParleyUpstreamUnavailable" in ended


def test_of_the_gateways_of_one_state_database_one_sends(tmp_path: Path) -> None:
    server = Server()
    settings = with_alerts(
        state={"url": f"sqlite:///{tmp_path}/state.db"},
        upstreams={"local": {"base_url": "http://model.test/v1", "api_key_command": ["false"]}},
    )
    with Running(settings, server) as first, Running(settings, server, loop=first.loop) as second:
        now = [1_800_000_000.0]
        for gateway in (first, second):
            alerting_of(gateway)._clock = lambda: now[0]
        for _ in range(8):
            for gateway in (first, second):
                gateway.post("/v1/chat/completions", CHAT)
                check(gateway)
            now[0] += 10
        assert [alert["alert"] for alert in server.alerts] == ["ParleyCredentialFailing"]
        now[0] += 60  # the first one is gone
        check(second)
        assert len(server.alerts) == 1, "the second one knows what was sent"


def test_a_state_database_that_fails_is_an_alert(tmp_path: Path) -> None:
    server, now = Server(), [1_800_000_000.0]
    (tmp_path / "file").write_text("no folder")
    with Running(with_alerts(state={"url": f"sqlite:///{tmp_path}/file/state.db"}), server) as gateway:
        alerting_of(gateway)._clock = lambda: now[0]
        check(gateway)
        now[0] += 60
        check(gateway)
    assert [alert["alert"] for alert in server.alerts] == ["ParleyStateDown"]


@pytest.mark.parametrize("holder", [None, "another process"])
def test_the_end_of_an_outage_is_sent_whoever_sends_from_then_on(holder: str | None, tmp_path: Path) -> None:
    server, now, folder = Server(), [1_800_000_000.0], tmp_path / "folder"
    folder.write_text("no folder")
    with Running(with_alerts(state={"url": f"sqlite:///{folder}/state.db"}), server) as gateway:
        alerting_of(gateway)._clock = lambda: now[0]
        check(gateway)
        now[0] += 60
        check(gateway)
        folder.unlink()
        folder.mkdir()
        if holder is not None:
            database = SqliteDatabase(f"{folder}/state.db")
            take_lease(database, "alerts", holder, now[0], 35.0)
            database.close()
        for _ in range(2):
            now[0] += 10
            check(gateway)
    assert [(alert["alert"], alert["status"]) for alert in server.alerts] == [
        ("ParleyStateDown", "firing"),
        ("ParleyStateDown", "resolved"),
    ]


def test_callers_with_tokens_have_budgets_of_their_own(tmp_path: Path) -> None:
    provider, alerts = IdentityProvider(), Server()
    server = ModelServer(lambda request: provider(request) or alerts._answer_all(request))
    rows = {
        "kc": {"issuer": ISSUER, "audience": AUDIENCE, "limits": {"spend_per_day": 10}},
        "KC": {"issuer": "https://other.test", "audience": AUDIENCE, "jwks_url": "https://other.test/keys"},
    }
    models = {"m": {"upstreams": ["local"], "price": PRICE}}
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    with Running(with_alerts(models=models, jwt=rows, state=state), server) as gateway:
        for name, count in (("ann%", 2), ("bob", 1), ("cem", 3)):
            headers = {"authorization": f"Bearer {sign(make_claims(sub=name))}"}
            for _ in range(count):
                assert gateway.post("/v1/chat/completions", {**CHAT, "max_tokens": 5}, headers).status == 200
        ends_at = time.monotonic() + 20
        while len(alerts.alerts) < 3 and time.monotonic() < ends_at:  # what is spent is stored after the answer
            check(gateway)
    found = sorted((alert["labels"]["name"], alert["labels"]["percent"]) for alert in alerts.alerts)
    assert found == [("kc:ann%", "80"), ("kc:cem", "100"), ("kc:cem", "80")]
    assert "the JWT caller 'kc:ann%' has spent 80 % of its limit per day." in [one["summary"] for one in alerts.alerts]


def test_a_guard_that_fails_or_refuses_often_is_an_alert_and_its_end_too(tmp_path: Path) -> None:
    server, now = Server(), [1_800_000_000.0]
    guards = {
        "down": {"url": "http://down.test", "models": ["a"], "on_failure": "pass"},
        "words": {"detectors": ["email"], "action": "reject", "models": ["m"]},
        "calm": {"detectors": ["email"], "action": "reject", "models": ["c"]},
    }
    models = {name: {"upstreams": ["local"]} for name in ("m", "a", "c")}
    with Running(with_alerts(guards=guards, models=models), server) as gateway:
        alerting_of(gateway)._clock = lambda: now[0]
        check(gateway)
        messages = [{"role": "user", "content": "Hi ann@example.com"}]
        for model, count in (("m", 21), ("a", 5), ("c", 20)):
            for _ in range(count):
                gateway.post("/v1/chat/completions", {**CHAT, "model": model, "messages": messages})
        check(gateway)
        assert [(one["alert"], one["labels"]) for one in server.alerts] == [("ParleyGuardRefusals", {"guard": "words"})]
        assert server.alerts[0]["summary"] == "The guard words has refused 21 texts in five minutes."
        now[0] += 60
        check(gateway)
        assert [(one["alert"], one["labels"]) for one in server.alerts[1:]] == [
            ("ParleyGuardFailing", {"guard": "down"})
        ]
        now[0] += 300
        check(gateway)
    assert sorted(one["alert"] for one in server.alerts if one["status"] == "resolved") == [
        *("ParleyGuardFailing", "ParleyGuardRefusals")
    ]


@pytest.mark.parametrize("outcome", ["failed", "dropped"])
def test_a_request_log_that_loses_entries_is_an_alert(outcome: str, tmp_path: Path) -> None:
    server, now = Server(), [1_800_000_000.0]
    url = f"sqlite:///{tmp_path}/requests.db"
    if outcome == "failed":
        (tmp_path / "file").write_text("no folder")
        url = f"sqlite:///{tmp_path}/file/requests.db"
    request_log = {"keep": "all", "url": url, "queue_bytes": 1024 * 1024}
    with Running(with_alerts(request_log=request_log), server) as gateway:
        alerting_of(gateway)._clock = lambda: now[0]
        log = gateway.context.request_log
        assert log is not None
        if outcome == "dropped":
            log._budget = ByteBudget(0)
        check(gateway)
        assert gateway.post("/v1/chat/completions", CHAT).status == 200
        gateway.loop.run_until_complete(asyncio.sleep(0.1))  # entries are given to the log behind the response
        log._wait_until_written()
        for _ in range(2):
            check(gateway)
            now[0] += 60
    assert [(one["alert"], one["labels"]) for one in server.alerts] == [
        ("ParleyRequestLogDropping", {"outcome": outcome})
    ]


class Unreadable(Limiter):
    """Limits whose counters cannot be read."""

    async def read_spent(self, rules: Sequence[Rule]) -> None:
        return None


def test_a_budget_that_cannot_be_read_has_not_ended(tmp_path: Path) -> None:
    server = Server()
    models = {"m": {"upstreams": ["local"], "price": PRICE}}
    state = {"url": f"sqlite:///{tmp_path}/state.db"}
    settings = with_alerts(models=models, limits={"spend_per_day": 4}, state=state)
    with Running(settings, server) as gateway:
        assert gateway.post("/v1/chat/completions", {**CHAT, "max_tokens": 5}).status == 200
        check(gateway)
        assert sorted(alert["labels"]["percent"] for alert in server.alerts) == ["100", "80"]
        context = gateway.context
        before, context.live = context.live, replace(context.live, limiter=Unreadable(Limits(), {}))
        check(gateway)
        context.live = before
        check(gateway)
        assert len(server.alerts) == 2


def test_what_an_older_version_has_kept_is_no_defect(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "state.db"))
    condition = {"name": "ParleyOfOld", "labels": [["a", "b"]], "details": []}
    firing = {"x": {"condition": condition, "starts_at": 1.0, "ends_at": None}}
    for value in ({"firing": firing, "sent_at": {"ops": {"x": 2.0}}}, {"firing": 7}, [1]):
        take_lease(database, "alerts", "old", 0.0, 1e12)
        keep_value(database, "alerts", "old", value)
        release_lease(database, "alerts", "old")
        server = Server()
        with Running(with_alerts(state={"url": f"sqlite:///{tmp_path}/state.db"}), server) as gateway:
            check(gateway)
        assert server.alerts == []
    database.close()


def test_a_reload_brings_receivers_and_takes_them_away() -> None:
    server = Server()
    found = [with_alerts(), SERVER]
    with Running(
        SERVER, server, load_settings=lambda: Settings.model_validate({"cache": {"url": "null:"}} | found[0])
    ) as gateway:
        assert gateway.context.alerting is None and gateway.context.reloader is not None
        assert gateway.loop.run_until_complete(gateway.context.reloader.reload())
        assert [*alerting_of(gateway)._receivers] == ["ops"]
        found.pop(0)
        assert gateway.loop.run_until_complete(gateway.context.reloader.reload())
        assert not alerting_of(gateway)._receivers


def test_the_error_budget_counts_faults_of_the_gateway_and_of_servers() -> None:
    rates = ErrorRates()
    assert rates.sample(0.0) == (0.0, 0.0)
    for error, from_upstream in (
        (None, False),
        ("server_error", True),
        ("rate_limit", False),
        ("internal_error", False),
    ):
        rates.observe(RequestRecord("r", "chat", error=error, error_from_upstream=from_upstream))
    assert rates.sample(10.0) == (0.5, 0.5)
    assert rates.sample(400.0) == (0.5, 0.0)
    rates.observe(RequestRecord("r", "chat", error="server_error", error_from_upstream=True))
    assert rates.sample(4000.0) == (1.0, 0.0)


def test_the_end_of_a_certificate_is_read(tmp_path: Path) -> None:
    certificate(tmp_path, "DNS:localhost")
    ends_at = read_certificate_end(str(tmp_path / "server.pem"))
    assert ends_at is not None and ends_at > 1_700_000_000
    assert read_certificate_end(str(tmp_path / "missing.pem")) is None


def test_the_command_names_a_receiver_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "parley.toml"
    file.write_text('demo = true\n[alerts.ops]\nurl = "http://127.0.0.1:1/geheim"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["alerts", "test", "opps"]) == 2
    assert "did you mean `ops`?" in capsys.readouterr().err
    assert main(["alerts", "test", "ops"]) == 1
    shown = capsys.readouterr()
    assert "the receiver ops did not take it: connection refused" in shown.err and "geheim" not in shown.err
