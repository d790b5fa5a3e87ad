"""Check the guards of a configuration that are services: each is asked about a harmless text, in each of its phases."""

import asyncio
from collections.abc import Callable

from app.config.settings import Settings
from app.doctor.findings import Finding
from app.guards.client import GuardClient
from app.guards.rules import GuardRule
from app.guards.verdicts import GuardError, Pass, Phase, Question, Reject, TextPart, Verdict
from app.upstream.http.transport import PushTransport, UpstreamTransport

HARMLESS = "The sun is shining today."
WITH_ADDRESS = "🙂 ann@example.com"
"""Its address begins behind two code points, three units of UTF-16, and five bytes of UTF-8."""


async def check_guards(
    settings: Settings, progress: Callable[[str], None] = lambda _: None, transport: UpstreamTransport | None = None
) -> list[Finding]:
    """Return the findings in the order of the settings."""
    rules = [row.make_rule(name) for name, row in settings.guards.items() if row.url is not None]
    if not rules:
        return []
    progress("the guards")
    client = transport or PushTransport()
    try:
        found = await asyncio.gather(*(_examine(rule, phase, client) for rule in rules for phase in rule.phases))
    finally:
        await client.aclose()
    return list(found)


async def _examine(rule: GuardRule, phase: Phase, transport: UpstreamTransport) -> Finding:
    subject, client = f"guard {rule.name}", GuardClient(rule, transport)
    asked = TextPart("messages[0].content[0]", "user", "text", HARMLESS)
    if phase == "reply":
        asked = TextPart("output[0]", "assistant", "text", HARMLESS)
    question = Question(phase, (asked,), "doctor", "doctor", "doctor")
    verdict: Verdict = Pass()
    try:
        if rule.api == "presidio":
            await _check_offsets(client, question)
        else:
            verdict = await client.ask(question)
    except GuardError as error:
        return Finding(subject, phase, "problem", f"{rule.url}: {error}", "correct its url and api, or start it")
    if isinstance(verdict, Reject):
        text = f"it refuses the text {HARMLESS!r}: {verdict.reason}"
        return Finding(subject, phase, "warning", text, "look at the rules of the service")
    return Finding(subject, phase, "ok", f"{rule.url} lets a harmless text pass")


async def _check_offsets(client: GuardClient, question: Question) -> None:
    """Raises GuardError if Presidio fails, or counts its places otherwise: values would be masked in wrong places."""
    answers = await client.find_spans([HARMLESS, WITH_ADDRESS], question)
    for answer in answers:
        if isinstance(answer, GuardError):
            raise answer
        places = [(start, end) for start, end, kind in answer if kind == "EMAIL"]
        if places and (2, len(WITH_ADDRESS)) not in places:
            raise GuardError("its places of values do not count code points, as those of Presidio do")
