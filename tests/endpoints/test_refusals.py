from app.endpoints.kinds import describe_served
from app.endpoints.refusals import explain_refusal
from app.upstream.faults import make_fault

from tests.each_case import each_case


def test_a_server_that_does_not_serve_an_endpoint_has_not_failed() -> None:
    fault = explain_refusal(make_fault("server_error", "no --embeddings", status=501), "embeddings")
    assert (fault.code, fault.transient, fault.message) == ("unsupported", False, "no --embeddings")


def test_a_path_that_a_server_lacks_can_be_set() -> None:
    assert "`paths.rerank`" in explain_refusal(make_fault("not_found", "no", status=404), "rerank").message


def test_other_refusals_stay() -> None:
    fault = make_fault("rate_limit", "slow", status=429)
    assert explain_refusal(fault, "embeddings") is fault


@each_case(("names", "text"), [(("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")])
def test_what_a_model_serves_is_said_in_words(names: tuple[str, ...], text: str) -> None:
    assert describe_served(names) == text
