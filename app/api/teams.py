"""`GET /v1/teams`: the teams of the configuration, their keys, and what they have used of their limits."""

from fastapi import APIRouter, Request

from app.api.admin import check_admin
from app.api.application import get_context
from app.config.access import make_limits
from app.config.tables.limits import LimitSettings
from app.formats.openapi import Described, describe, give_examples
from app.limits.values import Kind, Team, make_team_rules

router = APIRouter(tags=["keys"])


class UsedLimit(Described):
    kind: Kind
    limit: float
    used: float
    """Now, in this day, or in this month. Money that requests in progress have reserved counts."""


class TeamInfo(Described):
    name: str
    models: list[str]
    limits: LimitSettings
    keys: list[str]
    """The names of its API keys."""
    used: list[UsedLimit]
    """For each limit. Limits of spending are missing while the state database cannot be used."""


class TeamList(Described):
    model_config = give_examples(
        {
            "data": [
                {
                    "name": "research",
                    "models": ["qwen*"],
                    "limits": {"spend_per_month": 500},
                    "keys": ["alice", "bob"],
                    "used": [{"kind": "spend_per_month", "limit": 500, "used": 12.5}],
                }
            ]
        }
    )

    data: list[TeamInfo]


@router.get(
    "/v1/teams",
    operation_id="list_teams",
    summary="List the teams, and what they have used of their limits",
    responses=describe(401, 403),
)
async def list_teams(request: Request) -> TeamList:
    context = get_context(request)
    check_admin(request, context)
    settings = context.settings
    teams = {name: Team(name, make_limits(row.limits)) for name, row in settings.teams.items()}
    rules = {name: list(make_team_rules(team)) for name, team in teams.items()}
    owners = {rule.owner: name for name, of_team in rules.items() for rule in of_team}
    used: dict[str, list[UsedLimit]] = {name: [] for name in teams}
    if context.limiter is not None:
        for row in await context.limiter.read_rules([rule for of_team in rules.values() for rule in of_team]):
            used[owners[row.owner]].append(UsedLimit(kind=row.kind, limit=row.limit, used=row.used))
    return TeamList(
        data=[
            TeamInfo(
                name=name,
                models=[*row.models],
                limits=row.limits,
                keys=sorted(key for key, of_key in settings.keys.items() if of_key.team == name),
                used=used[name],
            )
            for name, row in sorted(settings.teams.items())
        ]
    )
