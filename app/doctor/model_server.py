"""Check a model server: the way to it, its key and model list, and how its models call functions and reason."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.calls.read_reply import read_reply
from app.chat.events import Event, Failed, Fault, Finish
from app.chat.messages import ChatRequest, Message, Text, Tool
from app.doctor.apis import Shown, describe_apis, describe_best, find_apis, make_shown, reach_by
from app.doctor.findings import Finding, Status, toml_key
from app.doctor.network import check_way
from app.doctor.probes import (
    FUNCTION,
    HUGE_OUTPUT,
    LENGTH_QUESTION,
    REASONING_QUESTION,
    TOOL_QUESTION,
    Verdict,
    judge_output_limit,
    judge_reasoning,
    judge_refused_tools,
    judge_tools,
)
from app.errors import UpstreamFailed
from app.profiles import Profile, find_profile
from app.upstream import causes, faults
from app.upstream.api import ApiName, find_api, should_stream
from app.upstream.base_urls import PROBE_SECONDS
from app.upstream.catalog import join_names
from app.upstream.check import UpstreamReport, check_upstream
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.reply.stream import UpstreamStream

MAX_PROBE_TOKENS = 1024
UNKNOWN_KIND = "openai_compatible"
_OTHER_FIELD = "max_completion_tokens"
_TOOLS = (Tool(FUNCTION["name"], FUNCTION),)


class ProbedModel(Struct, frozen=True):
    """One model of a server."""

    model: str
    """Its name in parley.toml."""
    name: str
    """Its name at the server."""
    profile: Profile
    upstream: str
    configured: bool
    """Whether the model has a table in parley.toml."""


class ModelServer(Struct, frozen=True):
    target: Target
    kind: str
    deployments: Sequence[ProbedModel]
    has_key: bool
    seconds: float
    """The limit of each step, and of each reply."""

    @property
    def subject(self) -> str:
        return f"upstream {self.target.name} at {self.target.base_url}"


async def check_server(server: ModelServer, client: UpstreamClient) -> tuple[list[Finding], UpstreamReport | None]:
    """Check the way to a server, its key and its models. The report is None if the server cannot be reached."""
    limit = min(server.seconds, server.target.connect_seconds)
    findings = await check_way(server.subject, server.target.base_url, server.target.connections, limit)
    if any(finding.status == "problem" for finding in findings):
        return findings, None
    target = server.target.with_timeout(server.seconds)
    report = await check_upstream(target, [deployment.name for deployment in server.deployments], client)
    return [*findings, *_describe_report(server, report)], report


async def find_server_apis(server: ModelServer, client: UpstreamClient) -> tuple[list[Finding], list[ApiName]]:
    """Return what is found of the APIs that a server answers, and the APIs."""
    target = server.target.with_timeout(server.seconds)
    apis = await find_apis(target, client, min(server.seconds, PROBE_SECONDS))
    return describe_apis(server.subject, target, apis), apis


def _describe_report(server: ModelServer, report: UpstreamReport) -> list[Finding]:
    checks = {"wrong_base_url": "path", "key_refused": "key", "failed": "http"}
    if not report.works:
        return [Finding(server.subject, checks[report.result], "problem", report.text, report.advice)]
    findings: list[Finding] = []
    if server.has_key:
        findings.append(Finding(server.subject, "key", "ok", "the server accepts the key"))
    if report.models:
        text = f"lists {len(report.models)}: {join_names(report.models)}"
        findings.append(Finding(server.subject, "models", "ok", text))
    elif report.result == "works":
        findings.append(Finding(server.subject, "models", "ok", report.text))
    else:
        findings.append(Finding(server.subject, "models", "warning", report.text, report.advice))
    names = [each.name for each in server.deployments] or list(report.contexts)[: len(report.contexts) == 1]
    for name in dict.fromkeys(names):
        if name in report.contexts:
            text = f"{name}: {report.contexts[name]:,} tokens for a prompt and its reply"
            findings.append(Finding(server.subject, "context", "ok", text))
    advice = "correct `name` of the model (or its name in parley.toml), or load the model on the server"
    findings += [Finding(server.subject, "models", "problem", sentence, advice) for sentence in report.missing]
    kind = report.likely_kind
    if kind is not None and server.kind == UNKNOWN_KIND:
        lines = (f"[upstreams.{toml_key(server.target.name)}]", f'kind = "{kind}"')
        text = f"the server looks like {kind}, and kind is not set"
        findings.append(Finding(server.subject, "kind", "warning", text, "set the kind of the server", lines))
    return findings


async def probe_model(
    server: ModelServer, deployment: ProbedModel, client: UpstreamClient, apis: Sequence[ApiName] = ()
) -> list[Finding]:
    """Send three requests to a model, and return what they show of its reasoning, its limit of output tokens and its
    functions. `apis` are those that the server answers: two requests go to each other one."""
    subject = f"model {deployment.model} of upstream {server.target.name}"
    probe = _Probe(client, server.target.with_timeout(server.seconds), deployment, server.seconds)
    events, fault = await probe.ask(REASONING_QUESTION)
    if fault is not None and _OTHER_FIELD in fault.message and deployment.profile.max_tokens_field != _OTHER_FIELD:
        verdict = Verdict(
            False,
            f"the server refuses {deployment.profile.max_tokens_field}",
            "set the name of the limit of output tokens",
            {"max_tokens_field": _OTHER_FIELD},
        )
        return [_make_finding(subject, "request", verdict, deployment)]
    if fault is not None:
        return [_make_failure(subject, "reply", fault)]
    findings = [_make_finding(subject, "reasoning", judge_reasoning(events, deployment.profile), deployment)]
    thought = events
    if deployment.profile.max_output_tokens is None:
        _, fault = await probe.ask(LENGTH_QUESTION, max_tokens=HUGE_OUTPUT)
        limit = judge_output_limit(fault)
        findings += [] if limit is None else [_make_finding(subject, "max_tokens", limit, deployment)]
    if not deployment.profile.native_tools:
        text = "functions are explained in the prompt (native_tools = false)"
        return [*findings, Finding(subject, "tools", "ok", text)]
    events, fault = await probe.ask(TOOL_QUESTION, tools=_TOOLS)
    if fault is None:
        verdict = judge_tools(events, deployment.profile)
        findings.append(_make_finding(subject, "tools", verdict, deployment))
        shown = [make_shown(probe.target.api, thought, events), *await _ask_by_others(server, probe, apis)]
        if verdict.good and not shown[0].calls:
            # The model chose to call nothing: that it calls over another API is chance.
            shown = [msgspec.structs.replace(one, calls=False) for one in shown]
        return findings + describe_best(subject, probe.target, shown)
    refused = fault.code == "invalid_request" or (fault.status is not None and 400 <= fault.status < 500)
    if not refused or fault.code in ("rate_limit", "authentication"):
        return [*findings, _make_failure(subject, "tools", fault)]
    finding = _make_finding(subject, "tools", judge_refused_tools(), deployment)
    return [*findings, msgspec.structs.replace(finding, message=f"{finding.message}: {fault.message}")]


async def _ask_by_others(server: ModelServer, probe: "_Probe", apis: Sequence[ApiName]) -> list[Shown]:
    """Ask the same two questions by each other API that the server answers."""
    shown: list[Shown] = []
    for api in apis:
        if api == probe.target.api:
            continue
        profile = find_profile(server.kind, api)
        deployment = msgspec.structs.replace(probe.deployment, profile=profile)
        other = _Probe(probe.client, reach_by(probe.target, api), deployment, probe.seconds)
        thought, fault = await other.ask(REASONING_QUESTION)
        if fault is None:
            called, _ = await other.ask(TOOL_QUESTION, tools=_TOOLS)
            shown.append(make_shown(api, thought, called))
    return shown


def _make_finding(subject: str, check: str, verdict: Verdict, deployment: ProbedModel) -> Finding:
    status: Status = "problem" if not verdict.good else "warning" if verdict.advice else "ok"
    return Finding(
        subject, check, status, verdict.message, verdict.advice, tuple(_profile_lines(verdict.fields, deployment))
    )


def _make_failure(subject: str, check: str, fault: Fault) -> Finding:
    cause = causes.find_by_word(fault.cause or "")
    advice = cause.advice if cause is not None and cause not in (causes.ERROR_STATUS, causes.ERROR_IN_REPLY) else ""
    return Finding(subject, check, "problem", fault.message, advice)


def _profile_lines(fields: Mapping[str, Any], deployment: ProbedModel) -> list[str]:
    """Write the fields as lines of `parley.toml`. A model that is only passed through gets a table of its own."""
    if not fields:
        return []
    table = f"models.{toml_key(deployment.model)}"
    lines = [] if deployment.configured else [f"[{table}]", f'upstreams = ["{deployment.upstream}"]', ""]
    return [*lines, f"[{table}.profile]", *(f"{name} = {_toml_value(value)}" for name, value in fields.items())]


def _toml_value(value: Any) -> str:
    # These values are strings, numbers, booleans and lists of strings, which TOML writes as JSON does.
    return msgspec.json.encode(value).decode()


class _Probe(Struct, frozen=True):
    """Sends requests to one model without the gateway's translation of replies."""

    client: UpstreamClient
    target: Target
    deployment: ProbedModel
    seconds: float

    async def ask(
        self, question: str, *, max_tokens: int = MAX_PROBE_TOKENS, tools: tuple[Tool, ...] = ()
    ) -> tuple[list[Event], Fault | None]:
        """Return the events of the reply, or why there is none."""
        message = Message("user", (Text(question),))
        request = ChatRequest(self.deployment.name, (message,), tools, {"max_tokens": max_tokens})
        body, _ = find_api(self.target.api).build(request, self.deployment.name, self.deployment.profile)
        try:
            async with asyncio.timeout(self.seconds):
                events = await self._read(
                    msgspec.json.encode(body), streams=should_stream(request, self.deployment.profile)
                )
        except TimeoutError:
            text = f"no complete reply to a short question within {self.seconds:g} s"
            return [], faults.make_fault("timeout", text, cause=causes.FIRST_TOKEN_TIMEOUT.word)
        except UpstreamFailed as error:
            return [], error.fault
        last = events[-1]
        return (events, None) if isinstance(last, Finish) else ([], last.fault if isinstance(last, Failed) else None)

    async def _read(self, body: bytes, *, streams: bool) -> list[Event]:
        api = find_api(self.target.api)
        response = await self.client.open(self.target, body, path=api.find_path(self.deployment.name, streams=streams))
        make_reader = api.make_reader
        stream = UpstreamStream(response, "doctor", (), self.target, make_reader=make_reader)
        return [event for events in await read_reply(stream) for event in events]
