"""Items of `reasoning_details` that a client has got in the server's own events (`Passed.details`), and that come in
later events, too."""

from app.chat.events import Event, Extra


def count_details(event: Event) -> int:
    """Return how many items an event has."""
    details = event.fields.get("reasoning_details") if type(event) is Extra else None
    return len(details) if isinstance(details, list) else 0


def drop_details(events: list[Event], count: int) -> tuple[list[Event], int]:
    """Return the events without their first `count` items, and how many are left of that count."""
    if count <= 0:
        return events, count
    out: list[Event] = []
    for event in events:
        known = min(count_details(event), count)
        if known and type(event) is Extra:
            count -= known
            left = event.fields["reasoning_details"][known:]
            event = Extra({**event.fields, "reasoning_details": left}, event.index)
        out.append(event)
    return out, count
