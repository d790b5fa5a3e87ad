"""Models without a price, whose replies no limit of spending can count."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from app.config.references import find_answering
from app.config.settings import Settings
from app.config.tables.limits import LimitSettings
from app.profiles import KINDS
from app.validation.violations import json_path
from app.validation.wildcards import WILDCARD


def check_prices(settings: Settings) -> Iterator[str]:
    """Find limits of spending on models without a price, which would never be reached."""
    open_ended: set[str] = set()
    """The limits of callers who may use any model of the pass-through."""
    limited = {
        json_path(["models", name, "limits"]): [name]
        for name, row in settings.models.items()
        if row.limits.limits_spending
    }
    if settings.limits.limits_spending:
        limited["limits"] = [*settings.models]
        open_ended.add("limits")
    for path, limits, patterns, team_name in _list_spenders(settings):
        team = None if team_name is None else settings.teams.get(team_name)
        paths = [path] if limits.limits_spending else []
        if team is not None and team.limits.limits_spending:
            paths.append(json_path(["teams", str(team_name), "limits"]))
        globs = [patterns] if team is None else [patterns, team.models]
        for path in paths:
            limited.setdefault(path, []).extend(
                model
                for model, row in settings.models.items()
                if all(_match_any((model, *row.aliases), patterns) for patterns in globs)
            )
            if _allow_unconfigured(globs, settings):
                open_ended.add(path)
    for path, models in limited.items():
        answering = {name for model in models for name in find_answering(settings, model)}
        missing = sorted(name for name in answering & settings.models.keys() if not _has_cost(settings, name))
        if missing:
            yield (
                f"{path}: limits spending, and {_join(missing)} without a price, so nothing would be counted: set "
                f"{json_path(['models', missing[0], 'price'])}, to {{ input = 0, output = 0 }} if it costs nothing"
            )
        elif path in open_ended and not _reports_cost(settings, {}, settings.passthrough):
            yield (
                f"{path}: limits spending, and passthrough serves models without a price, for which nothing would be "
                "counted: configure the models with their prices instead"
            )


def _list_spenders(settings: Settings) -> Iterator[tuple[str, LimitSettings, Sequence[str], str | None]]:
    """List, for each key and each team that the tokens of an issuer may name, the path of its limits, these limits, the
    patterns of its models, and the team."""
    for name, key in settings.keys.items():
        yield json_path(["keys", name, "limits"]), key.limits, key.models, key.team
    for name, row in settings.jwt.items():
        teams = {row.team, *(settings.teams if row.team_claim is not None else ())}
        for team in sorted(teams, key=str):
            yield json_path(["jwt", name, "limits"]), row.limits, row.models, team


def _allow_unconfigured(globs: Sequence[Sequence[str]], settings: Settings) -> bool:
    """Whether a model that is not configured can match a pattern of each of these lists."""
    wild = [any(set("*?[") & set(pattern) for pattern in patterns) for patterns in globs]
    known = {name for model, row in settings.models.items() for name in (model, *row.aliases)}
    others = {pattern for patterns in globs for pattern in patterns} - known
    return all(wild) or any(all(_match_any((name,), patterns) for patterns in globs) for name in others)


def _match_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a model may be used by one of its names. An alias with a wildcard may stand for any name."""
    return any(WILDCARD in name or fnmatchcase(name, pattern) for name in names for pattern in patterns)


def find_unpriced(settings: Settings) -> list[str]:
    """Return the names of the models without a price whose server does not report a cost either."""
    return [name for name in settings.models if not _has_cost(settings, name)]


def _has_cost(settings: Settings, model: str) -> bool:
    row = settings.models[model]
    return row.price is not None or all(
        _reports_cost(settings, row.profile, upstream.name) for upstream in row.upstreams
    )


def _reports_cost(settings: Settings, fields: Mapping[str, Any], upstream: str | None) -> bool:
    """Whether a server reports what its replies cost, or there is none."""
    if upstream is None:
        return True
    row = settings.upstreams.get(upstream)
    known = KINDS.get(row.kind) if row is not None else None
    return bool(fields.get("reports_cost", known is not None and known.reports_cost))


def _join(models: list[str]) -> str:
    shown = ", ".join(map(repr, models[:5])) + (f" and {len(models) - 5} more" if len(models) > 5 else "")
    return f"the model {shown} is" if len(models) == 1 else f"the models {shown} are"
