from app.api.kept_descriptions import KeptDescriptions


def test_a_description_is_kept_for_its_time() -> None:
    now = [0.0]
    kept = KeptDescriptions(clock=lambda: now[0])
    kept.keep(b"a", "A", 10)
    now[0] = 9.0
    assert kept.find(b"a") == "A"
    now[0] = 11.0
    assert kept.find(b"a") is None and kept.find(b"b") is None


def test_the_least_used_description_goes_first() -> None:
    kept = KeptDescriptions(max_bytes=1000)
    for key in (b"a", b"b", b"c"):
        kept.keep(key, "x", 10)
    kept.find(b"a")
    kept.keep(b"d", "x", 10)
    assert [kept.find(key) is not None for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]
    kept.keep(b"a", "y" * 500, 10)
    assert (kept.find(b"a"), kept.find(b"c")) == ("y" * 500, None)
