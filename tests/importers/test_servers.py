"""What is known of servers by their addresses."""

from app.importers.servers import PROVIDERS, find_kind, name_server
from app.profiles import KINDS


def test_an_address_that_is_no_url_has_a_name_and_no_kind() -> None:
    assert (name_server("http://[x"), find_kind("http://[x")) == ("server", "openai_compatible")
    assert (name_server("http://api.x.com:8000/v1"), name_server("${HOST}/v1")) == ("x-8000", "server")


def test_the_kinds_of_providers_are_kinds_of_parley() -> None:
    assert {provider.kind for provider in PROVIDERS.values()} <= {*KINDS}


def test_a_server_is_known_by_its_host_or_its_port() -> None:
    assert find_kind("https://api.deepseek.com/v1") == "deepseek"
    assert find_kind("http://10.0.0.1:11434/v1") == "ollama"
    assert find_kind("https://api.anthropic.com/v1", "messages") == "anthropic"
    assert find_kind("https://api.z.ai/api/anthropic", "messages") == "anthropic_compatible"
