"""Cases of the kind of the golden ones: other endpoints, orders, fields, rights and mistakes."""

from tests.coding_agents.related import lists, rest, searches, sockets

CASES = {**lists.CASES, **sockets.CASES, **searches.CASES, **rest.CASES}
