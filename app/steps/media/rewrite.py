"""The request as the model sees it: media in its form, the text of files where it takes none, and descriptions where
the format of the request or the profile asks for them."""

from collections.abc import Mapping
from dataclasses import replace

from app.chat.attachments import Attachment, FileText, Inlined
from app.chat.messages import ChatRequest, Media, Message, Part, Text, ToolResult
from app.profiles import Profile
from app.steps.media.names import MediaNames, describe_medium, media_of, write_upload_sentence
from app.steps.media.requests import MediaRequest, find_part_requests
from app.steps.media.texts import render_file_text
from app.steps.prompt_language import Language


def rewrite_media(
    request: ChatRequest, profile: Profile, results: Mapping[MediaRequest, Attachment], lang: Language
) -> tuple[ChatRequest, list[str]]:
    """(the request for a model of this profile, what the caller must know was not sent)."""
    run = _MediaRewriter(request, profile, results, lang)
    messages = tuple(run.rewrite_message(message) for message in request.messages)
    return (replace(request, messages=messages) if run.changed else request), run.warnings


class _MediaRewriter:
    def __init__(
        self, request: ChatRequest, profile: Profile, results: Mapping[MediaRequest, Attachment], lang: Language
    ) -> None:
        self._profile = profile
        self._results = results
        self._lang: Language = lang
        self._names = MediaNames(request)
        named = profile.name_media or request.policy.name_media
        self._name_untaken = named != "never"
        self._name_all = named == "with_tools" and bool(request.tools)
        self.changed = False
        self.warnings: list[str] = []

    def rewrite_message(self, message: Message) -> Message:
        if not media_of(message):
            return message
        self.changed = True
        if message.role == "assistant":
            parts = tuple(one for part in message.parts for one in self._rewrite_assistant_part(part))
        elif message.role == "tool":
            parts = tuple(self._result(part) for part in message.parts)
        else:
            parts = self._rewrite_upload(message)
        return replace(message, parts=parts)

    def _rewrite_upload(self, message: Message) -> tuple[Part, ...]:
        """A user's or system's message: what is to be named is, before all else, once."""
        descriptions = [
            text
            for part in media_of(message)
            if self._name_all or (self._name_untaken and not self._is_supported(part))
            for text in self._describe(part)
        ]
        parts = [one for part in message.parts for one in self._convert_part(part) or self._keep_if_unnamed(part)]
        prefix = write_upload_sentence(descriptions, self._lang)
        if not descriptions or any(isinstance(part, Text) and prefix in part.text for part in message.parts):
            return tuple(parts)
        return (Text(prefix), *parts)

    def _rewrite_assistant_part(self, part: Part) -> list[Part]:
        """An assistant's: nobody uploaded it, so it is not described as an upload."""
        if not isinstance(part, Media) or self._is_supported(part):
            return self._convert_part(part)
        self.warnings.append(f"{part.path} was not sent: this model does not accept {part.media} input")
        return []

    def _result(self, part: Part) -> Part:
        if not isinstance(part, ToolResult):
            return part
        content: list[Text | Media] = []
        for one in part.content:
            seen = self._convert_part(one)
            if isinstance(one, Media) and not self._is_supported(one):
                content += self._describe_in_result(one, read=bool(seen))
            content += (shown for shown in seen if isinstance(shown, Text | Media))
        return replace(part, content=tuple(content))

    def _convert_part(self, part: Part) -> list[Part]:
        """The part as the model gets it: itself, in another form, a file's text, or nothing."""
        if not isinstance(part, Media):
            return [part]
        found = [
            None if one is None else self._results.get(one)
            for one in find_part_requests(part, self._names.get(part), self._profile)
        ]
        if self._is_supported(part):
            return [_replace_urls(part, found, self._names.get(part))]
        return [
            Text(render_file_text(name, one, self._lang), part.mark)
            for name, one in zip(self._names.get(part), found, strict=True)
            if isinstance(one, FileText)
        ]

    def _keep_if_unnamed(self, part: Part) -> list[Part]:
        """What is neither seen nor named stays where it is, so that it is refused with its place."""
        return [] if self._name_untaken else [part]

    def _describe_in_result(self, part: Media, *, read: bool) -> list[Text]:
        """A tool's media cannot be refused: the caller's program has gone on with them. `read`: their text follows."""
        if self._name_untaken:
            return [Text(" ".join(self._describe(part)))]
        if read:
            return []
        self.warnings.append(f"{part.path} was not sent: this model does not accept {part.media} input")
        return [Text(f"[{part.media}: {' '.join(self._names.get(part))}]")]

    def _is_supported(self, part: Media) -> bool:
        return part.media in self._profile.media

    def _describe(self, part: Media) -> list[str]:
        return [describe_medium(part.media, name, self._lang) for name in self._names.get(part)]


def _replace_urls(part: Media, found: list[Attachment | None], names: list[str]) -> Media:
    urls = tuple(one.url if isinstance(one, Inlined) else url for url, one in zip(part.urls, found, strict=True))
    form = next((one.format for one in found if isinstance(one, Inlined) and one.format), part.format)
    return replace(part, urls=urls, format=form, name=names[0] if part.media == "file" else part.name)
