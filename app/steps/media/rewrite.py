"""The request as the model sees it: media in its form, the text of files where it takes none, and descriptions where
the format of the request or the profile asks for them."""

from collections.abc import Mapping
from dataclasses import replace

from app.chat.attachments import Attachment, FileText, Inlined
from app.chat.messages import ChatRequest, Media, Message, Part, Text, ToolResult
from app.profiles import Profile
from app.steps.language import Language
from app.steps.media.names import Names, described, media_of, sentence
from app.steps.media.texts import rendered
from app.steps.media.wants import Wanted, wants


def apply(
    request: ChatRequest, profile: Profile, results: Mapping[Wanted, Attachment], lang: Language
) -> tuple[ChatRequest, list[str]]:
    """(the request for a model of this profile, what the caller must know was not sent)."""
    run = _Rewriting(request, profile, results, lang)
    messages = tuple(run.message(message) for message in request.messages)
    return (replace(request, messages=messages) if run.changed else request), run.warnings


class _Rewriting:
    def __init__(
        self, request: ChatRequest, profile: Profile, results: Mapping[Wanted, Attachment], lang: Language
    ) -> None:
        self._profile = profile
        self._results = results
        self._lang: Language = lang
        self._names = Names(request)
        named = profile.name_media or request.policy.name_media
        self._name_untaken = named != "never"
        self._name_all = named == "with_tools" and bool(request.tools)
        self.changed = False
        self.warnings: list[str] = []

    def message(self, message: Message) -> Message:
        if not media_of(message):
            return message
        self.changed = True
        if message.role == "assistant":
            parts = tuple(one for part in message.parts for one in self._said(part))
        elif message.role == "tool":
            parts = tuple(self._result(part) for part in message.parts)
        else:
            parts = self._upload(message)
        return replace(message, parts=parts)

    def _upload(self, message: Message) -> tuple[Part, ...]:
        """A user's or system's message: what is to be named is, before all else, once."""
        descriptions = [
            text
            for part in media_of(message)
            if self._name_all or (self._name_untaken and not self._takes(part))
            for text in self._describe(part)
        ]
        parts = [one for part in message.parts for one in self._seen(part) or self._left(part)]
        prefix = sentence(descriptions, self._lang)
        if not descriptions or any(isinstance(part, Text) and prefix in part.text for part in message.parts):
            return tuple(parts)
        return (Text(prefix), *parts)

    def _said(self, part: Part) -> list[Part]:
        """An assistant's: nobody uploaded it, so it is not described as an upload."""
        if not isinstance(part, Media) or self._takes(part):
            return self._seen(part)
        self.warnings.append(f"{part.path} was not sent: this model takes no {part.media}")
        return []

    def _result(self, part: Part) -> Part:
        if not isinstance(part, ToolResult):
            return part
        content: list[Text | Media] = []
        for one in part.content:
            seen = self._seen(one)
            if isinstance(one, Media) and not self._takes(one):
                content += self._named_in_result(one, read=bool(seen))
            content += (shown for shown in seen if isinstance(shown, Text | Media))
        return replace(part, content=tuple(content))

    def _seen(self, part: Part) -> list[Part]:
        """The part as the model gets it: itself, in another form, a file's text, or nothing."""
        if not isinstance(part, Media):
            return [part]
        found = [
            None if one is None else self._results.get(one) for one in wants(part, self._names.of(part), self._profile)
        ]
        if self._takes(part):
            return [_inlined(part, found, self._names.of(part))]
        return [
            Text(rendered(name, one, self._lang), part.mark)
            for name, one in zip(self._names.of(part), found, strict=True)
            if isinstance(one, FileText)
        ]

    def _left(self, part: Part) -> list[Part]:
        """What is neither seen nor named stays where it is, so that it is refused with its place."""
        return [] if self._name_untaken else [part]

    def _named_in_result(self, part: Media, *, read: bool) -> list[Text]:
        """A tool's media cannot be refused: the caller's program has gone on with them. `read`: their text follows."""
        if self._name_untaken:
            return [Text(" ".join(self._describe(part)))]
        if read:
            return []
        self.warnings.append(f"{part.path} was not sent: this model takes no {part.media}")
        return [Text(f"[{part.media}: {' '.join(self._names.of(part))}]")]

    def _takes(self, part: Media) -> bool:
        return part.media in self._profile.media

    def _describe(self, part: Media) -> list[str]:
        return [described(part.media, name, self._lang) for name in self._names.of(part)]


def _inlined(part: Media, found: list[Attachment | None], names: list[str]) -> Media:
    urls = tuple(one.url if isinstance(one, Inlined) else url for url, one in zip(part.urls, found, strict=True))
    form = next((one.format for one in found if isinstance(one, Inlined) and one.format), part.format)
    return replace(part, urls=urls, format=form, name=names[0] if part.media == "file" else part.name)
