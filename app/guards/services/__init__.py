"""The forms in which guards by HTTP are asked: each is a path, a body for a question, and how its answer is read.

Reading is strict: what is not exactly a verdict raises `GuardError`, and never counts as a pass.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from app.guards.services import agentgateway, litellm, moderation, parley
from app.guards.verdicts import Question, Verdict


class Service(Struct, frozen=True):
    """One form."""

    make_url: Callable[[str, Question], str]
    write: Callable[[Question, str, Mapping[str, Any]], dict[str, Any]]
    """Returns the body; its arguments are the question, the name of the guard and its `params`."""
    read: Callable[[Any, Question, Mapping[str, Any]], Verdict]
    """Raises GuardError."""
    asks_groups: bool = True
    """Each group of a request is asked by itself."""


SERVICES: Mapping[str, Service] = {
    "litellm": Service(litellm.make_url, litellm.write, litellm.read),
    "agentgateway": Service(agentgateway.make_url, agentgateway.write, agentgateway.read),
    "parley": Service(parley.make_url, parley.write, parley.read, asks_groups=False),
    "moderation": Service(moderation.make_url, moderation.write, moderation.read),
}
"""Presidio is not among them: it finds values, which are masked (`app.guards.presidio`)."""
