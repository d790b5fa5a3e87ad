"""Writes the text of a file for a model, between `<file>` tags, with a heading for each page, slide or sheet."""

from app.chat.attachments import FileText, Section, Unit
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
    "en": "[a scanned PDF: its pages are pictures and have no text]",
    "zh": "[扫描版 PDF：各页均为图片，没有可读取的文字]",
}


def render_file_text(name: str, file: FileText, lang: Language) -> str:
    lines = [f'\n<file name="{name.replace(chr(34), chr(39))}">']
    lines += (_section(section, file.unit, lang) for section in file.sections)
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
