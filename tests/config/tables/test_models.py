"""The upstreams and the price of a model."""

from app.config.load import load
from app.usage.meter import Price

from tests.config.written_settings import written


def test_an_upstream_of_a_model_is_a_name_or_a_table_and_a_variable_holds_names() -> None:
    rows = """
        [upstreams]
        a.base_url = "http://a.test/v1"
        b.base_url = "http://b.test/v1"
        [models.m]
        upstreams = ["a", { name = "b", weight = 3, priority = 2 }]
        [models.n]
        upstreams = ["a"]
    """
    shown = [(one.name, one.weight, one.priority) for one in written(rows).models["m"].upstreams]
    assert shown == [("a", 1, 1), ("b", 3, 2)]
    changed = load({"PARLEY_MODELS__M__UPSTREAMS": "b, a", "PARLEY_MODELS__M__FALLBACKS": "n"}).models["m"]
    assert ([one.name for one in changed.upstreams], changed.fallbacks) == (["b", "a"], ("n",))


def test_prices_of_the_servers_cache_are_those_of_input_unless_they_are_set() -> None:
    text = """
        [upstreams.box]
        base_url = "http://127.0.0.1:1/v1"
        [models.m]
        upstreams = ["box"]
        price = { input = 2.5, output = 10, cached_input = 1.25 }
    """
    price = written(text).models["m"].price
    assert price is not None
    assert price.to_price() == Price(input=2.5, output=10, cached_input=1.25, cache_write=2.5)
