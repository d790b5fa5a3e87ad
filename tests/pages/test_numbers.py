"""Numbers that pages name are those of the code."""

import re
from importlib import import_module
from pathlib import Path

from tests.each_case import each_case

DOCS = Path(__file__).parents[2] / "docs"
WORDS = {"two": 2, "five": 5, "eight": 8, "ten": 10, "half a second": 0.5}
UNITS = {"KB": 1024, "GiB": 2**30, "minutes": 60, "%": 0.01}

NUMBERS = [
    ("guides/cache.md", r"up to ([\d.]+) seconds, later ones skip Redis", "app.redis.connection:TIMEOUT_SECONDS"),
    ("guides/files.md", r"the best (\d+) by words", "app.attachments.passages:MAX_EMBEDDED"),
    ("guides/routing.md", r"more than ([\d.]+) times its share", "app.routing.strategies:LOAD_FACTOR"),
    ("guides/routing.md", r"After (\d+) failures in a row", "app.routing.upstream_state:FAILURES_TO_OPEN"),
    ("guides/routing.md", r"requests for (\d+) seconds\. Then one trial", "app.routing.upstream_state:OPEN_SECONDS"),
    ("guides/routing.md", r"the time doubles, up to (\d+) seconds", "app.routing.upstream_state:MAX_OPEN_SECONDS"),
    ("guides/routing.md", r"`Retry-After`, at most (\d+) seconds", "app.routing.upstream_state:MAX_COOLDOWN_SECONDS"),
    ("guides/routing.md", r"A random part of up to (\d+ %)", "app.routing.upstream_state:JITTER"),
    ("guides/routing.md", r"requests more than (\d+) seconds, the caller", "app.routing.attempts:MAX_RETRY_SECONDS"),
    ("guides/routing.md", r"In any (ten) seconds", "app.routing.retry_budget:WINDOW_SECONDS"),
    ("guides/routing.md", r"at most (\d+) retries, or a fifth", "app.routing.retry_budget:MIN_RETRIES"),
    ("guides/routing.md", r"the last (\d+) requests for the model", "app.routing.upstream_state:MAX_SAMPLES"),
    ("guides/routing.md", r"\(of at least (\d+)\)", "app.routing.attempts:MIN_HEDGE_SAMPLES"),
    ("guides/server-tools.md", r"at most (\d+) images and audio", "app.tools.process.results:MAX_MEDIA"),
    ("guides/server-tools.md", r"up to (eight) each of", "app.formats.standalone_search:MAX_COMMANDS"),
    ("guides/structured-output.md", r"more than (\d+ KB), such a pattern", "app.steps.json_schema:MAX_SCHEMA_BYTES"),
    ("guides/structured-output.md", r"After ([\d,]+) characters of white", "app.steps.output_check:MAX_TRAILING_SPACE"),
    (
        "guides/terminal.md",
        r"or ([\d,]+) tokens, but at most",
        "app.coding_agents.agent:DEFAULT_REPLY_TOKENS",
    ),
    ("operate/alerts.md", r"at most ([\d,]+) wait", "app.alerts.receiver:MAX_WAITING"),
    ("operate/alerts.md", r"at most ([\d,]+) characters", "app.alerts.bodies:MAX_SLACK_CHARACTERS"),
    ("operate/alerts.md", r"Every (ten) seconds the gateway looks", "app.api.alerting:CHECK_SECONDS"),
    ("operate/credentials.md", r"It has (\d+) seconds, then it is killed", "app.upstream.credentials:COMMAND_SECONDS"),
    ("operate/credentials.md", r"More than (\d+ KB), nothing", "app.upstream.credentials:MAX_BYTES"),
    ("operate/jwt.md", r"1 to (\d+) printable", "app.access.issuer:MAX_NAME"),
    ("operate/jwt.md", r"the first (\d+) callers", "app.observe.metrics:MAX_JWT_CALLERS"),
    ("operate/jwt.md", r"limits of the last (\d+) callers", "app.access.tokens:MAX_LISTED"),
    ("operate/jwt.md", r"Tokens above (\d+ KB)", "app.access.tokens:MAX_TOKEN_BYTES"),
    ("operate/keys.md", r"at least (\d+) characters", "app.config.sources:MIN_KEY_LENGTH"),
    ("operate/limits.md", r"(\d+) per image or file", "app.chat.token_estimate:MEDIA_TOKENS"),
    ("operate/limits.md", r"without either, up to (\d+)", "app.chat.token_estimate:DEFAULT_REPLY_TOKENS"),
    ("operate/limits.md", r"stop counting after (\d+) seconds", "app.limits.redis_store:LEASE_SECONDS"),
    ("operate/monitoring.md", r"waits at most ([\d.]+) seconds", "app.observe.tracing:SHUTDOWN_SECONDS"),
    ("operate/monitoring.md", r"the last (\d+) requests", "app.observe.ended_requests:MAX_RECENT"),
    ("operate/networks.md", r"`connection_max_seconds` old \((\d+)\)", "app.upstream.http.options:MAX_AGE_SECONDS"),
    ("operate/networks.md", r"`connection_idle_seconds` \(([\d.]+)\)", "app.upstream.http.options:IDLE_SECONDS"),
    ("operate/security.md", r"accepted requests of (\d+ KB)", "app.formats.request_memory:MIN_BYTES"),
    ("operate/security.md", r"the last (\d+) requests", "app.observe.ended_requests:MAX_RECENT"),
    ("operate/threats.md", r"(\d+) keys at most", "app.access.jwk_set:MAX_KEYS"),
    ("operate/usage.md", r"up to (\d+) tags", "app.usage.tags:MAX_TAGS"),
    ("operate/usage.md", r"of 1 to (\d+) characters", "app.usage.tags:MAX_TAG"),
    ("operate/usage.md", r"a cost above ([\d,]+)", "app.chat.token_usage:MAX_COST"),
    ("operate/users.md", r"the first (\d+) characters", "app.access.users:MAX_NAME"),
    ("operate/users.md", r"At most ([\d,]+) users of a key", "app.limits.users:MAX_USERS"),
    ("reference/assembly.md", r"after (eight) such chunks", "app.upstream.chat_completions.other_choices:MAX_HELD"),
    ("reference/errors.md", r"server requested \(at most (\d+)\)", "app.upstream.faults:MAX_RETRY_AFTER"),
    ("reference/errors.md", r"at most (\d+) bytes, whose last entry", "app.api.reply_headers:MAX_WARNINGS_BYTES"),
    ("reference/http.md", r"at most (\d+) streams run side by side", "app.responses_api.websocket:MAX_STREAMS"),
    ("reference/http.md", r"at most (\d+) requests wait", "app.responses_api.websocket:MAX_WAITING"),
    ("reference/http.md", r"without an answer for (\d+) s the socket", "app.server.process:PONG_SECONDS"),
    ("reference/http.md", r"with at most (\d+) entries", "app.formats.agent_models:MAX_ENTRIES"),
    ("reference/http.md", r"waited for at most (\d+) seconds", "app.api.agent_lists:LIST_SECONDS"),
    ("reference/metrics.md", r"the first (\d+) of them have labels", "app.observe.metrics:MAX_JWT_CALLERS"),
    ("reference/metrics.md", r"a server with more than (\d+) names", "app.observe.metrics:MAX_TOOL_LABELS"),
    ("reference/preprocessing.md", r"nested no deeper than (\d+)", "app.steps.repair:MAX_NESTING"),
    ("reference/streams.md", r"for usage and the end \| (\d+) s", "app.upstream.http.client:GRACE_SECONDS"),
    ("reference/streams.md", r"closes the connection after (two) seconds", "app.upstream.http.client:GRACE_SECONDS"),
]
"""A page, where it names the number, and the name that the code has for it."""


@each_case(("page", "pattern", "name"), NUMBERS)
def test_a_number_of_a_page_is_that_of_the_code(page: str, pattern: str, name: str) -> None:
    (number,) = re.findall(pattern, " ".join((DOCS / page).read_text("utf-8").split()))
    module, _, constant = name.partition(":")
    assert read_number(number) == getattr(import_module(module), constant), (page, number, name)


def read_number(text: str) -> float:
    if text in WORDS:
        return WORDS[text]
    number, _, unit = text.replace(",", "").partition(" ")
    return float(number) * UNITS.get(unit, 1)
