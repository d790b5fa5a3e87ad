"""`parley doctor`: check the configuration and everything that it names, and say what to do."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence

import msgspec
from pydantic import ValidationError

from app.commands.command_line import UsageError
from app.commands.configuration import describe_models
from app.config.load import load
from app.config.registry import load_counters
from app.config.settings import SettingsError
from app.config.sources import config_file
from app.doctor import Examination, Finding, Status, examine_server, examine_settings
from app.terminal import use_color
from app.terminal.color import BOLD, DIM, GREEN, RED, YELLOW, paint
from app.terminal.screen import replace_control_characters

_STYLES: dict[Status, str] = {"ok": GREEN, "warning": YELLOW, "problem": RED}
_INDENT = " " * 22


def run(arguments: argparse.Namespace) -> int:
    """Return 1 if there is a problem; warnings alone are no problem."""
    how = Examination(arguments.timeout, not arguments.no_probes, arguments.model, _make_progress())
    if arguments.url is not None:
        findings = asyncio.run(_examine_url(arguments.url, how))
    else:
        findings = _examine_configuration(arguments, how)
    how.progress("")
    problems = sum(finding.status == "problem" for finding in findings)
    warnings = sum(finding.status == "warning" for finding in findings)
    if arguments.json:
        rows = msgspec.to_builtins(findings)
        report = {"ok": not problems, "problems": problems, "warnings": warnings, "findings": rows}
        print(json.dumps(report, indent=2))
    else:
        _print_findings(findings, color=use_color(sys.stdout, os.environ))
        print(f"\n{_count(problems, 'problem')}, {_count(warnings, 'warning')}")
    return 1 if problems else 0


async def _examine_url(url: str, how: Examination) -> list[Finding]:
    try:
        return await examine_server(url, os.environ.get("PARLEY_UPSTREAM_API_KEY"), how)
    except ValidationError as error:
        mistake = error.errors()[0]
        name = "PARLEY_UPSTREAM_API_KEY" if "api_key" in mistake["loc"] else "--url"
        raise UsageError(f"{name}: {mistake['msg'].removeprefix('Value error, ')}") from None


def _examine_configuration(arguments: argparse.Namespace, how: Examination) -> list[Finding]:
    file = config_file(os.environ, arguments.config)
    subject = f"configuration {file}" if file.exists() else "configuration (no file)"
    try:
        settings = load(path=arguments.config)
        load_counters(settings)
    except SettingsError as error:
        advice = "correct this setting; docs/reference/settings.md lists all"
        return [Finding(subject, "settings", "problem", mistake, advice) for mistake in error.mistakes]
    text = f"valid; models: {', '.join(describe_models(settings))}"
    advice = "" if settings.upstreams else "to connect a model server, set PARLEY_UPSTREAM_URL"
    valid = Finding(subject, "settings", "ok", text, advice)
    return [valid, *asyncio.run(examine_settings(settings, how))]


def _make_progress() -> Callable[[str], None]:
    """Return a function that shows on a terminal what is checked now; an empty text removes the line."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return lambda _: None

    def show(text: str) -> None:
        line = f"checking {replace_control_characters(text)} …"[:79] if text else ""
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    return show


def _print_findings(findings: Sequence[Finding], *, color: bool) -> None:
    subject = ""
    for finding in findings:
        if finding.subject != subject:
            print(f"{'' if not subject else chr(10)}{paint(_line(finding.subject), BOLD, color=color)}")
            subject = finding.subject
        status = paint(f"{finding.status:<7}", _STYLES[finding.status], color=color)
        print(f"  {status}  {finding.check:<9}  {_line(finding.message)}")
        if finding.advice:
            print(f"{_INDENT}→ {_line(finding.advice)}")
        for line in finding.settings:
            print(paint(f"{_INDENT}  {_line(line)}".rstrip(), DIM, color=color))


def _line(text: str) -> str:
    return replace_control_characters(text).replace("\n", " ")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
