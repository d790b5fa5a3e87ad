"""Which deployment of a model gets a request."""

from app.chat.events import Fault
from app.errors import ParleyError, UpstreamFailed
from app.profiles import Profile
from app.routing.pool import PoolMember, UpstreamStates, choose_available, choose_least_bad, make_use
from app.routing.route import Deployment, ModelRoute

from tests.default_limits import upstream_target
from tests.each_case import each_case

DOWN = Fault("upstream_unreachable", "refused", True)


def deployment(name: str, priority: int = 1, weight: float = 1.0) -> Deployment:
    return Deployment(upstream_target(name, f"http://{name}.test/v1"), "m", Profile(), weight, priority)


def pool(*deployments: Deployment) -> list[PoolMember]:
    return UpstreamStates().members(ModelRoute("m", deployments, {}))


def take_down(member: PoolMember, now: float) -> None:
    while member.state.is_available(now):
        member.state.on_fault(DOWN, now, 0.5, failed=True)


def choose(members: list[PoolMember], roll: float = 0.0) -> str | None:
    found = choose_available(members, "weighted", b"", 0.0, roll)
    return None if found is None else found.name


def test_the_best_priority_that_is_available_gets_all_requests() -> None:
    members = pool(deployment("a"), deployment("b"), deployment("spare", priority=2))
    assert (choose(members, 0.0), choose(members, 0.9)) == ("a", "b")
    take_down(members[0], 0.0)
    assert (choose(members, 0.0), choose(members, 0.9)) == ("b", "b")
    take_down(members[1], 0.0)
    assert choose(members) == "spare"
    take_down(members[2], 0.0)
    assert choose(members) is None


def test_the_strategy_sees_the_weight_and_the_load_of_a_member() -> None:
    light, heavy = pool(deployment("light"), deployment("heavy", weight=3.0))
    assert [choose([light, heavy], roll / 8) for roll in range(8)] == ["light"] * 2 + ["heavy"] * 6
    heavy.state.begin(0.0)
    assert (light.outstanding, heavy.outstanding) == (0, 1)
    found = choose_available([light, heavy], "least_busy", b"", 0.0, 0.9)
    assert found is light


def test_the_least_bad_is_the_one_that_is_available_first() -> None:
    late, early = pool(deployment("late"), deployment("early"))
    take_down(early, 0.0)
    take_down(late, 5.0)
    assert choose_least_bad([late, early], 5.0) is early


def test_an_upstream_keeps_its_state_until_its_address_changes_or_it_is_gone() -> None:
    first, other = upstream_target("a", "http://a.test/v1"), upstream_target("b", "http://b.test/v1")
    states = UpstreamStates([first, other])
    kept = states.get(first)
    assert states.get(upstream_target("a", "http://a.test/v1")) is kept
    states.set_targets([first])
    assert [state.name for state in states] == ["a"]
    assert states.get(upstream_target("a", "http://moved.test/v1")) is not kept


def test_a_retry_of_a_request_from_before_a_reload_does_not_reset_the_state_of_the_new_address() -> None:
    old, new = upstream_target("a", "http://old.test/v1"), upstream_target("a", "http://new.test/v1")
    states = UpstreamStates([old])
    before = states.get(old)
    states.set_targets([new])
    after = states.get(new)
    assert states.get(old) is before
    assert states.get(new) is after
    assert list(states) == [after]


def test_an_address_of_which_nothing_is_known_any_more_does_not_replace_the_configured_one() -> None:
    old, new = upstream_target("a", "http://old.test/v1"), upstream_target("a", "http://new.test/v1")
    states = UpstreamStates([new])
    after, before = states.get(new), states.get(old)
    assert states.get(old) is before
    assert list(states) == [after]
    states.set_targets([old])
    assert list(states) == [before]


def test_a_member_that_has_refused_the_account_is_the_last_until_a_reload_which_may_bring_another_key() -> None:
    first, second = deployment("a"), deployment("b")
    states, route = UpstreamStates(), ModelRoute("m", (first, second), {})
    use = make_use(first, "")
    states.refusals.on_refused(use, "alice", 0.0, 0.0)
    members = states.members(route, caller="alice")
    assert [choose(members, roll) for roll in (0.0, 0.9)] == ["b", "b"]
    take_down(members[1], 0.0)
    assert (choose(members), choose_least_bad(members, 1.0).name) == (None, "a")
    assert [choose(states.members(route, *other)) for other in (("", "bob"), ("score", "alice"))] == ["a", "a"]
    states.set_targets([first.target, second.target])
    assert choose(states.members(route, caller="alice")) == "a"


FALLBACKS = ModelRoute(
    "m", (), {}, fallbacks=("a",), fallbacks_on_context_length=("b",), fallbacks_on_content_filter=("c",)
)


@each_case(
    ("code", "transient", "models"),
    [
        ("context_length_exceeded", False, ("b",)),
        ("content_filter", False, ("c",)),
        ("rate_limit", True, ("a",)),
        ("invalid_request", False, ()),
    ],
)
def test_the_models_to_try_next_depend_on_the_error(code: str, transient: bool, models: tuple[str, ...]) -> None:
    error: ParleyError = UpstreamFailed(Fault(code, "no", transient))
    assert FALLBACKS.fallbacks_after(error) == models
    assert FALLBACKS.has_fallbacks
    assert not ModelRoute("m", (), {}).has_fallbacks
