"""What is done to a request before a model sees it, and undone on its reply: pure, one idea a file."""

from app.chat.stage import Stage
from app.profiles import Profile
from app.steps.thinking import ThinkStage


def reply_stages(profile: Profile) -> list[Stage]:
    """What a reply of this profile's model must pass, in order: thinking first, so that what stands in a thought
    stays thought."""
    if profile.inline_think == "off":
        return []
    return [ThinkStage(profile.inline_think, profile.think_tags)]
