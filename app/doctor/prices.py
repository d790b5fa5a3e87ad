"""Check that the cost of every configured model is known, where prices are used at all."""

from app.config.settings import Settings
from app.config.unpriced import find_unpriced
from app.doctor.findings import Finding

_MAX_NAMES = 20


def check_prices(settings: Settings) -> list[Finding]:
    """Return nothing if no model has a price, and none is read from a file."""
    if settings.prices.file is None and all(row.price is None for row in settings.models.values()):
        return []
    unpriced = find_unpriced(settings)
    if not unpriced:
        return [Finding("prices", "price", "ok", "the cost of every configured model is known")]
    more = f" and {len(unpriced) - _MAX_NAMES} more" if len(unpriced) > _MAX_NAMES else ""
    text = f"models without a price, whose cost counts as 0: {', '.join(unpriced[:_MAX_NAMES])}{more}"
    return [Finding("prices", "price", "warning", text, "set price of these models, or name them in prices.file")]
