from app.chat.messages import make_call_id


def test_an_id_is_made_from_all_that_it_names() -> None:
    assert make_call_id(3, "f", '{"a": 1}') == "call_77138082aa5ca81b36c65ca9"
    assert len({make_call_id(*what) for what in ((3, "f"), (4, "f"), (3, "g"), (3, "f", ""))}) == 4


def test_a_lone_surrogate_makes_an_id_too() -> None:
    assert make_call_id("\ud800").startswith("call_")
