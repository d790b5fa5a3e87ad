"""Two replies that show which call of a model server a client gets."""

from typing import Any

from tests.live.caching_gateway import Asker
from tests.live.gateway import DONE, end, say
from tests.scripted_server import Reply

OLD, NEW = Reply([say("old"), end(), DONE], chunked=True), Reply([say("new"), end(), DONE], chunked=True)


async def ask_label_and_text(gateway: Asker, **how: Any) -> tuple[str, str]:
    """Label and text."""
    answer = await gateway.ask(stream=False, **how)
    assert answer.status == 200
    return answer.label, answer.json["messages"][0]["content"]
