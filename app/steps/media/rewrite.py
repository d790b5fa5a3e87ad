"""Rewrites the media of a request for a model.

Supported media get the form that the model accepts, other files become text, and media are described in words if the
request's format or the profile asks for it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

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
    """Return (the request for a model of this profile, warnings about media that were not sent)."""
    rewriter = _MediaRewriter(request, profile, results, lang)
    messages = tuple(rewriter.rewrite_message(message) for message in request.messages)
    return (replace(request, messages=messages) if rewriter.changed else request), rewriter.warnings


class _MediaRewriter:
    def __init__(
        self, request: ChatRequest, profile: Profile, results: Mapping[MediaRequest, Attachment], lang: Language
    ) -> None:
        self._profile = profile
        self._results = results
        self._lang: Language = lang
        self._names = MediaNames(request)
        name_media = profile.name_media or request.policy.name_media
        self._names_unsupported = name_media != "never"
        self._names_all = name_media == "with_tools" and bool(request.tools)
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
        """Rewrite a user or system message. The sentence that names media comes first, unless a text has it already."""
        descriptions = [
            text
            for part in media_of(message)
            if self._names_all or (self._names_unsupported and not self._is_supported(part))
            for text in self._describe(part)
        ]
        parts = [one for part in message.parts for one in self._convert_part(part) or self._keep_if_unnamed(part)]
        prefix = write_upload_sentence(descriptions, self._lang)
        if not descriptions or any(isinstance(part, Text) and prefix in part.text for part in message.parts):
            return tuple(parts)
        return (Text(prefix), *parts)

    def _rewrite_assistant_part(self, part: Part) -> list[Part]:
        """Rewrite a part of an assistant message. It was not uploaded, so it is not described as an upload."""
        if not isinstance(part, Media) or self._is_supported(part):
            return self._convert_part(part)
        self.warnings.append(f"{part.path} was not sent: this model does not accept {part.media} input")
        return []

    def _result(self, part: Part) -> Part:
        assert isinstance(part, ToolResult), "a tool's message holds results alone"
        content: list[Text | Media] = []
        for item in part.content:
            converted = self._convert_part(item)
            if isinstance(item, Media) and not self._is_supported(item):
                content += self._describe_in_result(item, has_text=bool(converted))
            content += (new for new in converted if isinstance(new, (Text, Media)))
        return replace(part, content=tuple(content))

    def _convert_part(self, part: Part) -> list[Part]:
        """Return the part as the model gets it: unchanged, in another form, as a file's text, or not at all."""
        if not isinstance(part, Media):
            return [part]
        attachments = [
            None if need is None else self._results.get(need)
            for need in find_part_requests(part, self._names.get(part), self._profile)
        ]
        if self._is_supported(part):
            return [_replace_urls(part, attachments, self._names.get(part))]
        return [
            Text(render_file_text(name, attachment, self._lang), part.mark)
            for name, attachment in zip(self._names.get(part), attachments, strict=True)
            if isinstance(attachment, FileText)
        ]

    def _keep_if_unnamed(self, part: Part) -> list[Part]:
        """Keep a part that is neither supported nor named, so that it is refused with its JSON path."""
        return [] if self._names_unsupported else [part]

    def _describe_in_result(self, part: Media, *, has_text: bool) -> list[Text]:
        """Describe media of a tool result instead of refusing them: the agent's run could not continue after an error.

        `has_text`: the text of the file follows.
        """
        if self._names_unsupported:
            return [Text(" ".join(self._describe(part)))]
        if has_text:
            return []
        self.warnings.append(f"{part.path} was not sent: this model does not accept {part.media} input")
        return [Text(f"[{part.media}: {' '.join(self._names.get(part))}]")]

    def _is_supported(self, part: Media) -> bool:
        return part.media in self._profile.media

    def _describe(self, part: Media) -> list[str]:
        return [describe_medium(part.media, name, self._lang) for name in self._names.get(part)]


def _replace_urls(part: Media, attachments: list[Attachment | None], names: list[str]) -> Media:
    urls = tuple(
        attachment.url if isinstance(attachment, Inlined) else url
        for url, attachment in zip(part.urls, attachments, strict=True)
    )
    formats = (attachment.format for attachment in attachments if isinstance(attachment, Inlined))
    format_ = next(filter(None, formats), part.format)
    return replace(part, urls=urls, format=format_, name=names[0] if part.media == "file" else part.name)
