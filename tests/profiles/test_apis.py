"""The profile of a kind of server by the API that it is reached by."""

from app.profiles import KINDS, Profile, find_profile
from app.profiles.apis import API_FACTS
from app.profiles.kinds import Fact

from tests.each_case import each_case

ROWS = [
    (api, kind, field, fact)
    for api, kinds in API_FACTS.items()
    for kind, facts in kinds.items()
    for field, fact in facts.items()
]


@each_case(("api", "kind", "field", "fact"), ROWS)
def test_every_fact_is_a_field_with_a_reason_and_a_source(api: str, kind: str, field: str, fact: Fact) -> None:
    assert field in Profile.model_fields and fact.why and fact.source
    assert not kind or kind in KINDS
    assert getattr(find_profile(kind or "openai_compatible", api), field) == fact.value or not kind


def test_chat_completions_have_the_profile_of_the_kind() -> None:
    assert find_profile("vllm", "chat_completions") is KINDS["vllm"]


def test_no_server_of_responses_takes_video() -> None:
    assert all("video" not in find_profile(kind, "responses").media for kind in KINDS)


def test_only_chat_completions_have_options_for_a_search() -> None:
    assert find_profile("openai", "chat_completions").web_search_options
    assert not any(find_profile("openai", api).web_search_options for api in ("responses", "messages"))
