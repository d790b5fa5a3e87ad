"""Describes what a model and its server support, as data.

`KINDS` has a row of defaults for each known kind of server, which `find_profile` completes for its API; a model's
`[models.<name>.profile]` overrides single fields. `scripts/profiles` generates docs/reference/profiles.md from this
package.
"""

from app.chat.messages import MediaKind
from app.profiles.apis import find_profile
from app.profiles.kinds import KINDS
from app.profiles.profile import READS_REPLIES, SHAPES_REQUESTS, EmptyReplies, Profile, select_reply_fields

__all__ = [
    "KINDS",
    "READS_REPLIES",
    "SHAPES_REQUESTS",
    "EmptyReplies",
    "MediaKind",
    "Profile",
    "find_profile",
    "select_reply_fields",
]
