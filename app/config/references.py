"""What the settings of a model name: its upstreams, its fallbacks and its profile."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from app.config.settings import DEMO, Settings
from app.config.tables.base import split_list
from app.config.tables.models import Model, upstream_rows
from app.endpoints.kinds import CHAT, describe_served
from app.profiles import KINDS, Profile
from app.validation.nearest import suggest_name
from app.validation.violations import json_path, to_violations
from app.validation.wildcards import WILDCARD, match_any_wildcard


def find_dangling(tree: Mapping[str, Any]) -> list[str]:
    """Find references to unknown upstreams and models, and invalid profiles. Wrong types were reported before."""
    upstreams, models = _rows(tree, "upstreams"), _rows(tree, "models")
    passthrough, default = tree.get("passthrough"), tree.get("default_model")
    own = (name for name, row in models.items() if not _is_pattern(row))
    names = {*own, *(alias for row in models.values() for alias in _words(row, "aliases"))}
    names |= {DEMO} if tree.get("demo") else set()
    mistakes = [
        f"{json_path(['upstreams', name, 'kind'])}: {_unknown_kind(kind)}"
        for name, row in upstreams.items()
        if isinstance(kind := row.get("kind", "openai_compatible"), str) and kind not in KINDS
    ]
    if isinstance(passthrough, str) and passthrough not in upstreams:
        mistakes.append(f"passthrough: there is no upstream {passthrough!r}{suggest_name(passthrough, upstreams)}")
    if isinstance(default, str) and not (default in names or match_any_wildcard(names, default)) and not passthrough:
        mistakes.append(f"default_model: there is no model {default!r}{suggest_name(default, names)}")
    if upstreams and not names and not passthrough:
        mistakes.append("upstreams: no model uses them; add a [models.<name>], or set passthrough to one of them")
    for name, row in models.items():
        mistakes += (*_check_model_names(name, row, upstreams, models), *_check_profile(name, row))
        mistakes += _check_virtual(name, row, models)
    return mistakes


def _unknown_kind(kind: str) -> str:
    return f"must be one of {', '.join(sorted(KINDS))}, not {kind!r}{suggest_name(kind, KINDS)}"


def _check_model_names(
    name: str, row: dict[str, Any], upstreams: dict[str, dict[str, Any]], models: dict[str, dict[str, Any]]
) -> Iterator[str]:
    used = _upstream_names(row)
    for index, upstream in enumerate(used):
        path = json_path(["models", name, "upstreams", index])
        if upstream not in upstreams:
            yield f"{path}: there is no upstream {upstream!r}{suggest_name(upstream, upstreams)}"
        elif upstream in used[:index]:
            yield f"{path}: {upstream!r} is listed twice; give it a weight instead"
    yield from _check_fallbacks(name, row, models)
    if _is_pattern(row) and not _fits_pattern(row):
        text = "`*` is what the `*` of an alias stands for: give the model's name one `*`, and each of its aliases one"
        yield f"{json_path(['models', name, 'name'])}: {text}"
    for alias in _words(row, "aliases"):
        if [other for other in models if alias == other or alias in _words(models[other], "aliases")] != [name]:
            yield f"{json_path(['models', name, 'aliases'])}: {alias!r} is also the name of another model"


def _is_pattern(row: dict[str, Any]) -> bool:
    return WILDCARD in str(row.get("name") or "")


def _fits_pattern(row: dict[str, Any]) -> bool:
    aliases = _words(row, "aliases")
    return bool(aliases) and all(str(text).count(WILDCARD) == 1 for text in (row["name"], *aliases))


def _check_fallbacks(name: str, row: dict[str, Any], models: dict[str, dict[str, Any]]) -> Iterator[str]:
    known = {*models, *(alias for other in models.values() for alias in _words(other, "aliases"))}
    for key in ("fallbacks", "fallbacks_on_context_length", "fallbacks_on_content_filter"):
        for index, model in enumerate(_words(row, key)):
            path = json_path(["models", name, key, index])
            if model not in known:
                yield f"{path}: there is no model {model!r}{suggest_name(model, known)}"
            elif _find_row(model, models).get("use") is not None:
                yield f"{path}: {model!r} is a virtual model: name one with upstreams"
            elif _is_pattern(_find_row(model, models)):
                yield f"{path}: {model!r} stands for many models: add one with a name of its own"
            elif model == name or model in _words(row, "aliases"):
                yield f"{path}: a model cannot be its own fallback"
            elif mistake := _find_unfit(name, model, models):
                yield f"{path}: {mistake}"


def _find_unfit(name: str, fallback: str, models: dict[str, dict[str, Any]]) -> str | None:
    """Return why a model cannot answer in place of another one: it serves none of the same endpoints, or makes vectors
    that cannot be compared with those of the other."""
    other = next(one for one, row in models.items() if fallback == one or fallback in _words(row, "aliases"))
    own = _words(models[name], "endpoints") or [CHAT]
    common = [endpoint for endpoint in own if endpoint in (_words(models[other], "endpoints") or [CHAT])]
    if not common:
        return f"{fallback!r} serves none of the endpoints of this model: {describe_served(own)}"
    spaces = [models[one].get("vector_space", one) for one in (name, other)]
    if "embeddings" in common and spaces[0] != spaces[1]:
        return (
            f"the vectors of {fallback!r} cannot be compared with those of this model; if they can, because it is the "
            f"same model, set the same vector_space for both"
        )
    return None


_VIRTUAL_KEYS = frozenset({"use", "rules", "route_seconds", "aliases", "display_name", "description"})
"""What a virtual model may have. The rest is that of the model which answers."""
_MODEL_DEFAULTS = Model().model_dump()


def _check_virtual(name: str, row: dict[str, Any], models: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Find models without upstreams, and virtual models that name something else than models with upstreams."""
    if row.get("use") is None:
        if not row.get("upstreams"):
            text = "name the upstreams that serve the model, or set `use` for a virtual model"
            yield f"{json_path(['models', name, 'upstreams'])}: {text}"
        for key in ("rules", "route_seconds"):
            if _is_given(row, key):
                text = "is for a virtual model, which names its default model in `use`"
                yield f"{json_path(['models', name, key])}: {text}"
        return
    for key in Model.model_fields:
        if key not in _VIRTUAL_KEYS and _is_given(row, key):
            text = "a virtual model has none: set it in the models that answer for it"
            yield f"{json_path(['models', name, key])}: {text}"
    real = [model for model, other in models.items() if other.get("use") is None and not _is_pattern(other)]
    for path, target in _list_targets(name, row):
        if target not in real:
            hint = suggest_name(target, real)
            yield f"{path}: there is no model {target!r} with upstreams{hint}; an alias is not enough"


def _is_given(row: dict[str, Any], key: str) -> bool:
    """Whether the row says something else than the default: that of a running gateway has all defaults."""
    value = row.get(key)
    return key in row and (tuple(value) if isinstance(value, list) else value) != _MODEL_DEFAULTS[key]


def _list_targets(name: str, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each model that a virtual model may choose. Wrong types were reported before."""
    if isinstance(row["use"], str):
        yield json_path(["models", name, "use"]), row["use"]
    rules = row.get("rules", ())
    for index, rule in enumerate(rules if isinstance(rules, list | tuple) else ()):
        if isinstance(rule, dict) and isinstance(rule.get("use"), str):
            yield json_path(["models", name, "rules", index, "use"]), rule["use"]


def _find_row(model: str, models: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return next((row for name, row in models.items() if model == name or model in _words(row, "aliases")), {})


def _upstream_names(row: dict[str, Any]) -> list[str]:
    """Return the names of a model's upstreams. Wrong types were reported before."""
    rows = upstream_rows(row.get("upstreams"))
    names = [item.get("name") if isinstance(item, dict) else None for item in rows] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _check_profile(name: str, row: dict[str, Any]) -> Iterator[str]:
    profile = row.get("profile", {})
    if not isinstance(profile, dict):
        return
    fields = {**Profile().model_dump(), **profile}
    try:
        Profile.model_validate(fields)
    except ValidationError as error:
        for item in to_violations(error, fields, json_path(["models", name, "profile"]), Profile):
            yield f"{item.path}: {item.message}"


def _rows(tree: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    rows = tree.get(section)
    return {name: row if isinstance(row, dict) else {} for name, row in rows.items()} if isinstance(rows, dict) else {}


def _words(row: dict[str, Any], key: str) -> list[str]:
    words = split_list(row.get(key))
    return [word for word in words if isinstance(word, str)] if isinstance(words, list | tuple) else []


def find_answering(settings: Settings, model: str) -> list[str]:
    """Return the names of the models that may answer a request for a model: it, and its fallbacks with theirs; for a
    virtual model those that it may choose."""
    names = {alias: name for name, row in settings.models.items() for alias in (name, *row.aliases)}
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [names.get(model, model)]
    while waiting:
        name = waiting.pop()
        row = settings.models.get(name)
        if name in seen:
            continue
        seen.add(name)
        if row is not None:
            others = (*row.fallbacks, *row.fallbacks_on_context_length, *row.fallbacks_on_content_filter)
            waiting += [names.get(other, other) for other in others]
        if row is not None and row.use is not None:
            waiting += [row.use, *(rule.use for rule in row.rules)]
        else:
            found[name] = None
    return list(found)
