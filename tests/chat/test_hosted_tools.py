from app.chat.hosted_tools import SearchEntry, cut_entries, write_entries

ONE, TWO = SearchEntry("https://a.example/1", "One", "First."), SearchEntry("https://b.example/2", "Two")


def test_the_model_reads_title_address_and_words_of_each_page() -> None:
    assert write_entries([ONE, TWO]) == "[1] One\nhttps://a.example/1\nFirst.\n\n[2] Two\nhttps://b.example/2"
    assert write_entries([]) == "No results."


def test_long_words_are_cut_to_equal_shares_and_short_ones_are_not() -> None:
    long, short = SearchEntry("u", "t", "é" * 100), SearchEntry("v", "t", "abcd")
    first, second, third = cut_entries([long, short, long], 64)
    assert (first.text, second.text, third.text) == ("é" * 15, "abcd", "é" * 15)
    assert cut_entries([short, long], 1000) == (short, long)
    assert cut_entries([], 10) == ()
