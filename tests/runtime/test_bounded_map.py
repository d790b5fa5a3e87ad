"""A map that keeps what was used last, within its limits."""

from app.runtime.bounded_map import BoundedMap


def keys_of(items: BoundedMap[str, str]) -> list[str]:
    return [key for key, _ in items.items()]


def test_the_item_that_was_not_used_for_longest_is_dropped() -> None:
    items = BoundedMap[str, str](max_bytes=30, max_items=10)
    for key in "abc":
        items.put(key, key.upper(), 10)
    assert items.get("a") == "A"
    items.put("d", "D", 10)
    assert keys_of(items) == ["c", "a", "d"] and len(items) == 3
    assert items.get("b") is None


def test_the_number_of_items_is_limited() -> None:
    items = BoundedMap[str, str](max_bytes=100, max_items=2)
    for key in "abc":
        items.put(key, key, 1)
    assert keys_of(items) == ["b", "c"]


def test_an_item_replaces_one_with_the_same_key_and_its_size() -> None:
    items = BoundedMap[str, str](max_bytes=30, max_items=10)
    items.put("a", "old", 30)
    items.put("a", "new", 10)
    items.put("b", "b", 20)
    assert list(items.items()) == [("a", "new"), ("b", "b")]


def test_an_item_that_is_larger_than_the_map_is_not_kept() -> None:
    items = BoundedMap[str, str](max_bytes=30, max_items=10)
    items.put("a", "a", 31)
    assert not len(items)
    items.put("b", "b", 30)
    assert keys_of(items) == ["b"]


def test_what_is_taken_or_cleared_gives_its_bytes_back() -> None:
    items = BoundedMap[str, str](max_bytes=30, max_items=10)
    for key in "abc":
        items.put(key, key, 10)
    assert items.pop("a") == "a" and items.pop("a") is None
    items.put("d", "d", 10)
    assert keys_of(items) == ["b", "c", "d"]
    items.clear()
    items.put("e", "e", 30)
    assert keys_of(items) == ["e"]
