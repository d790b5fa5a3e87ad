"""OpenAI's moderations (`POST /v1/moderations`), of OpenAI or of a server that speaks the same."""

from collections.abc import Mapping
from typing import Any

from app.guards.verdicts import GuardError, Pass, Question, Reject, Verdict

DEFAULT_MODEL = "omni-moderation-latest"


def make_url(base: str, question: Question) -> str:
    base = base.rstrip("/")
    if base.endswith("/moderations"):
        return base
    return base + ("/moderations" if base.endswith("/v1") else "/v1/moderations")


def write(question: Question, guard: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": params.get("model", DEFAULT_MODEL), "input": [part.text for part in question.parts]}


def read(answer: Any, question: Question, params: Mapping[str, Any]) -> Verdict:
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list) or len(results) != len(question.parts):
        raise GuardError(f"its answer does not have the {len(question.parts)} results that were asked for")
    thresholds = params.get("thresholds", {})
    refused: list[str] = []
    category: str | None = None
    for part, result in zip(question.parts, results, strict=True):
        if not isinstance(result, dict) or type(result.get("flagged")) is not bool:
            raise GuardError("its answer has a result without `flagged`")
        flagged, scores = result["flagged"], result.get("category_scores")
        known = _read_flagged_scores(scores) if flagged else _read_scores(scores, thresholds)
        if flagged or any(known.get(name, 0.0) >= limit for name, limit in thresholds.items()):
            refused.append(part.id)
            category = category or max(known, key=lambda name: known[name], default=None)
    return Reject(category or "flagged", category, tuple(refused)) if refused else Pass()


def _read_flagged_scores(value: Any) -> dict[str, float]:
    """Read the scores of what is refused whatever they are; they only name a category."""
    try:
        return _read_scores(value, {})
    except GuardError:
        return {}


def _read_scores(value: Any, thresholds: Mapping[str, Any]) -> dict[str, float]:
    """Read the scores; a category that the model does not know may be null. Raises GuardError, also if there are scores
    and none for a threshold: its name may be wrong, and it would never be applied."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GuardError("its answer has scores that are not an object")
    missing = next((name for name in thresholds if value and name not in value), None)
    if missing is not None:
        raise GuardError(f"its answer has no score for {missing!r} of params.thresholds")
    known = {name: score for name, score in value.items() if score is not None}
    if not all(type(score) in (int, float) for score in known.values()):
        raise GuardError("its answer has a score that is not a number")
    return {name: float(score) for name, score in known.items()}
