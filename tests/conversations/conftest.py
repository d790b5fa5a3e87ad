from collections.abc import Iterator

import pytest

from tests.conversations.reading import MODELS, Gateway
from tests.inprocess import ModelServer, Running


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    server = ModelServer()
    with Running(MODELS, server) as running:
        yield Gateway(running, server)
