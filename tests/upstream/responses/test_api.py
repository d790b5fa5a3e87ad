"""Responses among the APIs of model servers."""

from app.config.registry import targets
from app.config.settings import Settings
from app.upstream.api import find_api
from app.upstream.responses.api import API


def test_a_target_has_the_path_of_the_api_and_keeps_a_query() -> None:
    assert find_api("responses") is API
    row = {"base_url": "http://h/v1", "api": "responses", "api_key": "k"}
    target = targets(Settings.model_validate({"upstreams": {"a": row}}))["a"]
    assert str(target.url(target.reply_path)) == "http://h/v1/responses"
    assert target.headers["authorization"] == "Bearer k"
