"""The process lives, and requests may come."""

from app import __version__

from tests.in_process_gateway import ModelServer, Running


def test_health_reports_the_version() -> None:
    with Running(server=ModelServer()) as gateway:
        answer = gateway.get("/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok", "version": __version__})


def test_readiness_turns_when_the_gateway_drains_and_health_does_not() -> None:
    with Running(server=ModelServer()) as gateway:
        assert (gateway.get("/readyz").status, gateway.get("/readyz").json) == (200, {"status": "ready"})
        gateway.context.draining = True
        answer = gateway.get("/readyz")
        assert (answer.status, answer.json) == (503, {"status": "draining"})
        assert gateway.get("/healthz").status == 200


def test_no_model_server_is_needed_to_be_ready() -> None:
    server = ModelServer()
    with Running(server=server) as gateway:
        assert gateway.get("/readyz").status == 200
    assert server.requests == []
