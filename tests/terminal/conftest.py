"""One gateway process for all tests of the terminal client."""

from collections.abc import Iterator

import pytest

from tests.terminal.gateway_process import running_gateway
from tests.terminal.slow_model import SlowModel, slow_model

SETTINGS = """
default_model = "demo"
demo = true
[upstreams.slow]
base_url = "{slow}"
[upstreams.local]
base_url = "http://127.0.0.1:1/v1"
kind = "vllm"
[models.slow]
upstreams = ["slow"]
[models.qwen3]
upstreams = ["local"]
profile = {{text_tools = "hermes", media = [], max_input_tokens = 32000}}
[models.eyes]
upstreams = ["local"]
"""


@pytest.fixture(scope="package")
def slow() -> Iterator[SlowModel]:
    with slow_model() as model:
        yield model


@pytest.fixture(scope="package")
def gateway(slow: SlowModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway with the demo model as its default, the slow model, and two that are down."""
    file = tmp_path_factory.mktemp("gateway") / "parley.toml"
    file.write_text(SETTINGS.format(slow=slow.url))
    with running_gateway({"PARLEY_CONFIG": str(file)}) as url:
        yield url
