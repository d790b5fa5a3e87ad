"""What is counted of the memory of a request that is ready to be sent."""

import pytest
from app.chat.messages import ChatRequest
from app.routing import ModelRoute, PreparedRequest

ROUTE = ModelRoute("m", (), {})
REQUEST = ChatRequest("m", ())
SHARED, OTHER = b"x" * 100, b"y" * 40


@pytest.mark.parametrize(
    ("bodies", "original", "size"),
    [
        ((SHARED,), None, 100),
        ((SHARED, SHARED), None, 100),
        ((SHARED, OTHER, SHARED), None, 140),
        ((), None, 0),
        ((SHARED,), REQUEST, 200),
        ((SHARED, OTHER), REQUEST, 240),
        ((), REQUEST, 0),
    ],
)
def test_deployments_share_equal_bodies_and_the_request_counts_as_the_largest(
    bodies: tuple[bytes, ...], original: ChatRequest | None, size: int
) -> None:
    assert PreparedRequest(ROUTE, REQUEST, bodies, (), 0, None, original=original).size == size
