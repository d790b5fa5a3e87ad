"""Rewrites the media of a request for a model.

Supported media get the form that the model accepts, other files become text, and media are described in words if the
request's format or the profile asks for it. In the history, so are media that cannot be sent.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from app.chat import datauri
from app.chat.attachments import Attachment, FileText, Inlined, Unreadable
from app.chat.media_types import HEAD_BYTES, correct_media_type
from app.chat.messages import ChatRequest, Media, Message, Part, Text, ToolResult
from app.errors import InvalidInput, Violation
from app.openai_messages.content_parts import find_problem
from app.profiles import Profile
from app.steps.media.names import MediaNames, describe_medium, is_web_url, media_of, write_upload_sentence
from app.steps.media.requests import (
    MediaRequest,
    find_native_media,
    find_part_requests,
    find_required,
    keeps_media,
)
from app.steps.media.texts import find_losses, render_file_text, write_placeholder
from app.steps.prompt_language import Language


def rewrite_media(
    request: ChatRequest, profile: Profile, results: Mapping[MediaRequest, Attachment], lang: Language
) -> tuple[ChatRequest, list[str]]:
    """Return (the request for a model of this profile, warnings about media that were not sent).

    Raises InvalidInput for media of the newest message that cannot be written as the model's server expects them.
    """
    rewriter = _MediaRewriter(request, profile, results, lang)
    required = find_required(request.messages)
    messages = tuple([rewriter.rewrite(message, index in required) for index, message in enumerate(request.messages)])
    if rewriter.violations:
        raise InvalidInput(rewriter.violations)
    return (replace(request, messages=messages) if rewriter.changed else request), rewriter.warnings


class _MediaRewriter:
    def __init__(
        self, request: ChatRequest, profile: Profile, results: Mapping[MediaRequest, Attachment], lang: Language
    ) -> None:
        self._request = request
        self._profile = profile
        self._native = find_native_media(request, profile)
        self._keeps_media = keeps_media(request, profile)
        self._results = results
        self._lang: Language = lang
        self._names = MediaNames(request)
        name_media = profile.name_media or request.policy.name_media
        self._names_unsupported = name_media != "never"
        self._names_all = name_media == "with_tools" and bool(request.tools)
        self._required = False
        """The media of the message that is being rewritten must be readable."""
        self.changed = False
        self.warnings: list[str] = []
        self.violations: list[Violation] = []

    def rewrite(self, message: Message, required: bool) -> Message:
        if not media_of(message):
            return message
        self.changed, self._required = True, required
        if message.role == "assistant":
            parts = self._rewrite_answer(message)
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

    def _rewrite_answer(self, message: Message) -> tuple[Part, ...]:
        """Rewrite an assistant message. Its media were not uploaded, so they are not described as uploads. Those that
        are not sent are left out; a message that would then be empty has their names."""
        parts: list[Part] = []
        left_out: list[Part] = []
        for part in message.parts:
            if not isinstance(part, Media):
                parts.append(part)
                continue
            converted = self._convert_part(part)
            if not self._is_supported(part):
                self._warn(part, f"this model does not accept {part.media} input")
                left_out.append(Text(write_placeholder(part.media, self._names.get(part), "", self._lang)))
            elif isinstance(converted[0], Text):
                left_out += converted
            else:
                parts += converted
        return tuple(parts or left_out)

    def _result(self, part: Part) -> Part:
        assert isinstance(part, ToolResult), "a tool's message holds results alone"
        content: list[Text | Media] = []
        for item in part.content:
            converted = self._convert_part(item)
            if isinstance(item, Media) and not self._is_supported(item):
                content += self._describe_unsupported(item, has_text=bool(converted))
            content += (new for new in converted if isinstance(new, (Text, Media)))
        return replace(part, content=tuple(content))

    def _convert_part(self, part: Part) -> list[Part]:
        """Return the part as the model gets it: unchanged, in another form, as a file's text, as a placeholder, or not
        at all."""
        if not isinstance(part, Media):
            return [part]
        needs = find_part_requests(part, self._names, self._request, self._profile, required=self._required)
        attachments = [None if need is None else self._results.get(need) for need in needs]
        if self._is_supported(part):
            if self._keeps_media and needs == [None] * len(needs):
                return [part]
            return [self._convert_supported(part, attachments)]
        texts = zip(self._names.get(part), attachments, strict=True)
        return [text for name, attachment in texts for text in self._write_file(part, name, attachment)]

    def _convert_supported(self, part: Media, attachments: Sequence[Attachment | None]) -> Media | Text:
        """Return the part in the form that the model accepts. Frames of a video that cannot be read are left out."""
        urls: list[str] = []
        problems: list[Violation] = []
        format_ = part.format
        for index, (url, attachment) in enumerate(zip(part.urls, attachments, strict=True)):
            try:
                urls.append(_send_url(url, attachment))
            except ValueError as error:
                problems.append(Violation(f"{part.path}[{index}]" if part.frames else part.path, str(error)))
            if isinstance(attachment, Inlined):
                format_ = attachment.format or format_
        if problems and self._required:
            self.violations += problems
            return part
        if urls:
            name = self._names.get(part)[0] if part.media == "file" else part.name
            converted = replace(part, urls=tuple(urls), format=format_, name=name)
            problem = None if self._required else find_problem(converted, self._profile)
            if problem is None:
                self.warnings += [_describe_loss(violation.path, violation.message) for violation in problems]
                return converted
            problems = [Violation(part.path, problem)]
        self.warnings += [_describe_loss(violation.path, violation.message) for violation in problems]
        text = write_placeholder(part.media, self._names.get(part), problems[0].message, self._lang)
        return Text(text, part.mark)

    def _write_file(self, part: Media, name: str, attachment: Attachment | None) -> list[Part]:
        if isinstance(attachment, FileText):
            self.warnings += (f"{part.path}: {loss}" for loss in find_losses(attachment))
            return [Text(render_file_text(name, attachment, self._lang), part.mark)]
        if isinstance(attachment, Unreadable):
            self._warn(part, attachment.reason)
            return [Text(write_placeholder(part.media, [name], attachment.reason, self._lang), part.mark)]
        return []

    def _keep_if_unnamed(self, part: Part) -> list[Part]:
        """Keep a part that is neither supported nor named, so that it is refused with its JSON path; in the history,
        describe it."""
        if self._names_unsupported:
            return []
        return [part] if self._required or not isinstance(part, Media) else [*self._describe_unsupported(part)]

    def _describe_unsupported(self, part: Media, *, has_text: bool = False) -> list[Text]:
        """Describe media of the history instead of refusing them: the conversation could not continue after an error.

        `has_text`: the text of the file follows, or why it could not be read.
        """
        if self._names_unsupported:
            return [Text(" ".join(self._describe(part)))]
        if has_text:
            return []
        self._warn(part, f"this model does not accept {part.media} input")
        return [Text(write_placeholder(part.media, self._names.get(part), "", self._lang), part.mark)]

    def _warn(self, part: Media, reason: str) -> None:
        self.warnings.append(_describe_loss(part.path, reason))

    def _is_supported(self, part: Media) -> bool:
        return part.media in self._native

    def _describe(self, part: Media) -> list[str]:
        return [describe_medium(part.media, name, self._lang) for name in self._names.get(part)]


def _describe_loss(path: str, reason: str) -> str:
    return f"{path} was not sent: {reason}"


def _send_url(url: str, attachment: Attachment | None) -> str:
    """Return the URL to send: what was loaded, or the caller's, if it is data then as strict servers expect it.

    Raises ValueError with the reason why there is none.
    """
    if isinstance(attachment, Inlined):
        return attachment.url
    if isinstance(attachment, Unreadable):
        raise ValueError(attachment.reason)
    if is_web_url(url):
        return url
    if not datauri.is_data(url):
        return datauri.clean_base64(url)
    head = datauri.parse(url)
    if head.start == len(url):
        raise ValueError("is empty")
    data = url[head.start : head.start + 2 * HEAD_BYTES]
    start = datauri.decode_head(data, HEAD_BYTES) if head.base64 else datauri.decode(url)[:HEAD_BYTES]
    return datauri.normalize(url, correct_media_type(start, head.media_type))
