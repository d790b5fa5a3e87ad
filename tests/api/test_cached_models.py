"""The figures of the cache stay readable whatever names callers invent."""

from app.api.admin import CachedModel, list_cached_models
from app.stores import EntryTotals


def test_the_models_with_the_most_entries_are_listed_and_the_others_are_added_up() -> None:
    by_model = {f"m{number}": EntryTotals(number, 10 * number) for number in range(1, 6)}
    assert list_cached_models(by_model, most=2) == {
        "m4": CachedModel(entries=4, bytes=40),
        "m5": CachedModel(entries=5, bytes=50),
        "(other models)": CachedModel(entries=6, bytes=60),
    }
    assert list(list_cached_models(by_model)) == ["m1", "m2", "m3", "m4", "m5"]
