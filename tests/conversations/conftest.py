from collections.abc import Iterator

import pytest

from tests.conversations.sample_conversations import MODELS, Gateway
from tests.in_process_gateway import ModelServer, Running


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(MODELS, server) as running:
        yield Gateway(running, server)
