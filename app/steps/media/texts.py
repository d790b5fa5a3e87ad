"""Writes the text of a file for a model, between `<file>` tags, with a heading for each page, slide or sheet; what the
caller must know about it; and what is written instead of a medium that is not sent."""

from collections.abc import Sequence

from app.chat.attachments import FileText, PassageChoice, Section, Unit
from app.chat.messages import MediaKind
from app.steps.prompt_language import Language

_MARKS: dict[Language, dict[Unit, str]] = {
    "en": {"page": "[Page {}]", "slide": "[Slide {}]", "sheet": "[Sheet {}: {}]", "none": ""},
    "zh": {"page": "[第 {} 页]", "slide": "[第 {} 张幻灯片]", "sheet": "[工作表 {}：{}]", "none": ""},
}
_LEFT_OUT: dict[Language, dict[Unit, str]] = {
    "en": {
        "page": "[{} more pages were left out]",
        "slide": "[{} more slides were left out]",
        "sheet": "[{} more sheets were left out]",
        "none": "[the rest was left out]",
    },
    "zh": {
        "page": "[后面 {} 页已省略]",
        "slide": "[后面 {} 张幻灯片已省略]",
        "sheet": "[后面 {} 个工作表已省略]",
        "none": "[其余内容已省略]",
    },
}
_CUT: dict[Language, str] = {"en": "[the text was cut here: it is too long]", "zh": "[文本过长，在此截断]"}
_SCANNED: dict[Language, str] = {
    "en": "[a scanned PDF: its pages are images without text]",
    "zh": "[扫描版 PDF：各页均为图片，没有可读取的文字]",
}


_UNREAD: dict[Language, str] = {
    "en": "[this part could not be read: {}]",
    "zh": "[此部分无法读取：{}]",
}
_PICTURED: dict[Language, str] = {
    "en": "[this page is an image without text]",
    "zh": "[本页为图片，没有可读取的文字]",
}
_NO_PASSAGE: dict[Language, dict[PassageChoice, str]] = {
    "en": {
        "match": "[no passage of this file matches the question]",
        "no_room": "[no passage of this file was put in: those of other files come first]",
    },
    "zh": {
        "match": "[此文件中没有与问题相关的段落]",
        "no_room": "[未包含此文件的段落：其他文件中的段落优先]",
    },
}
_PASSAGES: dict[Language, dict[PassageChoice, str]] = {
    "en": {
        "match": "[a long file: {} of its {} passages, those that match the question best]",
        "unmatched": "[a long file: {} of its {} passages, from its beginning: none has a word of the question]",
        "beginning": "[a long file: {} of its {} passages, from its beginning]",
    },
    "zh": {
        "match": "[文件较长：共 {1} 段，以下为与问题最相关的 {0} 段]",
        "unmatched": "[文件较长：共 {1} 段，没有包含问题中词语的段落，以下为开头的 {0} 段]",
        "beginning": "[文件较长：共 {1} 段，以下为开头的 {0} 段]",
    },
}
_PLACEHOLDERS: dict[Language, str] = {"en": "[{}: {}]", "zh": "[{}：{}]"}
_REASONS: dict[Language, str] = {"en": "{} (not sent: {})", "zh": "{}（未发送：{}）"}
_KINDS: dict[Language, dict[MediaKind, str]] = {
    "en": {"image": "image", "audio": "audio", "video": "video", "file": "file"},
    "zh": {"image": "图片", "audio": "音频", "video": "视频", "file": "文件"},
}
_MAX_LISTED = 20


def write_placeholder(kind: MediaKind, names: Sequence[str], reason: str, lang: Language) -> str:
    """Write what the model gets instead of a medium. `reason` is empty if the model does not accept this kind."""
    text = " ".join(names)
    return _PLACEHOLDERS[lang].format(_KINDS[lang][kind], _REASONS[lang].format(text, reason) if reason else text)


def find_losses(file: FileText) -> list[str]:
    """Return which parts of a file the model does not get, in sentences for the caller."""
    unit = "part" if file.unit == "none" else file.unit
    found = [f"{unit} {section.number} could not be read: {section.reason}" for section in file.unread[:_MAX_LISTED]]
    if len(file.unread) > _MAX_LISTED:
        found.append(f"{len(file.unread) - _MAX_LISTED} more {unit}s could not be read")
    if file.scanned:
        found.append("the PDF is scanned: its pages are images without text, so the model does not see what they show")
    elif not file.unread and not file.passage_count and not any(each.text.strip() for each in file.sections):
        found.append("the file has no text")
    if file.pictured:
        numbers = ", ".join(map(str, file.pictured[:_MAX_LISTED])) + (", …" if len(file.pictured) > _MAX_LISTED else "")
        found.append(f"these pages are images without text, so the model does not see what they show: {numbers}")
    if file.cut:
        found.append("the text was cut: it is too long")
    if file.passage_count:
        found.append(_describe_passages(file))
    if file.search_problem:
        found.append(file.search_problem)
    if file.left_out:
        found.append(f"{file.left_out} more {unit}s were left out")
    return found


_NONE_CHOSEN: dict[PassageChoice, str] = {
    "match": "none matches the question",
    "no_room": "those of other files come first, and took what `rag_cfg` allows",
}
_CHOSEN: dict[PassageChoice, str] = {
    "match": "those that match the question best",
    "unmatched": "from its beginning, because no passage has a word of the question",
    "beginning": "from its beginning",
}


def _describe_passages(file: FileText) -> str:
    if not file.passages:
        return f"none of its {file.passage_count} passages was put in: {_NONE_CHOSEN[file.passage_choice]}"
    numbers = ", ".join(map(str, file.passages))
    text = f"passages {numbers} of {file.passage_count} were put in, {_CHOSEN[file.passage_choice]}"
    if file.unit != "none":
        text += f": {file.unit}s {', '.join(str(section.number) for section in file.sections)}"
    return text + (f"; passage {file.cut_passage} was cut at `max_ref_token`" if file.cut_passage else "")


def render_file_text(name: str, file: FileText, lang: Language) -> str:
    lines = [f'\n<file name="{name.replace(chr(34), chr(39))}">']
    if file.passage_count:
        used = len(file.passages)
        head = _PASSAGES[lang][file.passage_choice] if used else _NO_PASSAGE[lang][file.passage_choice]
        lines.append(head.format(used, file.passage_count))
        lines += (_section(section, file.unit, lang) for section in file.sections)
        return "\n".join([*lines, "</file>\n"])
    parts = {section.number: _section(section, file.unit, lang) for section in file.sections}
    for unread in file.unread:
        parts[unread.number] = _section(Section(_UNREAD[lang].format(unread.reason), unread.number), file.unit, lang)
    for number in file.pictured:
        parts[number] = _section(Section(_PICTURED[lang], number), file.unit, lang)
    lines += (parts[number] for number in sorted(parts))
    if file.scanned:
        lines.append(_SCANNED[lang])
    if file.cut:
        lines.append(_CUT[lang])
    if file.left_out:
        lines.append(_LEFT_OUT[lang][file.unit].format(file.left_out))
    return "\n".join([*lines, "</file>\n"])


def _section(section: Section, unit: Unit, lang: Language) -> str:
    mark = _MARKS[lang][unit].format(section.number, section.name)
    text = section.text.strip("\r\n")
    return f"{mark}\n{text}" if mark else text
