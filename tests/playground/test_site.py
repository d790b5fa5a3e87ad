"""The files of the playground as the package has them."""

import json
import re
from pathlib import Path

from app.errors import CODES
from app.formats import FORMATS
from app.playground import files

SITE = Path(files.__file__).parent / "site"
OWN = [path for path in sorted(SITE.rglob("*.*")) if "vendor" not in path.parts]
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
TEXTS = {name: json.loads((SITE / f"strings/{name}.json").read_text("utf-8")) for name in ("en", "zh")}


def used_keys() -> tuple[set[str], set[str]]:
    """The keys of texts in the scripts, and the beginnings of those that are put together."""
    source = "\n".join(path.read_text("utf-8") for path in SCRIPTS)
    lists = " ".join(re.findall(r"\[([^\]]*)\]\.map\(\(key\) => t\(key\)\)", source))
    plain = set(re.findall(r'\bt\("(\w+)"', source)) | set(re.findall(r'"(\w+)"', lists))
    return plain, set(re.findall(r"\bt\(`(\w+_)\$\{", source))


def test_both_languages_have_the_same_texts() -> None:
    assert list(TEXTS["en"]) == list(TEXTS["zh"])
    for key, text in TEXTS["en"].items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", TEXTS["zh"][key])), key


def test_every_text_that_a_script_names_exists() -> None:
    plain, beginnings = used_keys()
    assert plain - TEXTS["en"].keys() == set()
    assert {begin for begin in beginnings if not any(key.startswith(begin) for key in TEXTS["en"])} == set()


def test_every_text_is_used() -> None:
    plain, beginnings = used_keys()
    # Views and roles are keys themselves.
    by_value = {
        "chat",
        "convert",
        "status",
        "connect",
        "keys",
        "teams",
        "requests",
        "spending",
        "system",
        "user",
        "assistant",
        "function",
    }
    left = TEXTS["en"].keys() - plain - by_value
    assert {key for key in left if not key.startswith(tuple(beginnings))} == set()


def test_every_error_and_whose_fault_it_is_has_a_text() -> None:
    own = {f"error_{code}" for code, row in CODES.items() if row.own}
    of_servers = {f"error_upstream_{code}" for code, row in CODES.items() if row.server}
    places = {f"place_{place}" for place in ("caller", "policy", "upstream", "gateway", "network")}
    assert (own | of_servers | places) - TEXTS["en"].keys() == set()


def test_every_file_that_a_file_names_is_in_the_package() -> None:
    names = files.list_names()
    for path in SCRIPTS:
        for name in re.findall(r'(?:from|import\() ?"(\.{1,2}/[^"]+)"', path.read_text("utf-8")):
            target = (path.parent / name).resolve().relative_to(SITE.resolve())
            assert str(target) in names, (path.name, name)
    for name in re.findall(r'(?:src|href)="playground/([^"]+)"', (SITE / "index.html").read_text("utf-8")):
        assert name in names


def test_every_file_has_a_media_type_and_can_be_read() -> None:
    assert {files.read_file(name).media_type for name in files.list_names()} >= {
        "text/html; charset=utf-8",
        "font/woff2",
    }


def test_no_own_file_names_another_host() -> None:
    allowed = r"https?://(127\.0\.0\.1|www\.w3\.org/2000/svg)"
    for path in OWN:
        others = re.findall(rf"(?!{allowed})https?://[\w.]+", path.read_text("utf-8"))
        assert others == [], path.name


def test_no_own_file_has_an_inline_script_or_style() -> None:
    for path in OWN:
        text = path.read_text("utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=[\"$]|\beval\(|new Function", text), path.name


def test_each_vendored_library_has_its_licence_and_its_row() -> None:
    page = (SITE / "vendor/README.md").read_text("utf-8")
    for path in sorted((SITE / "vendor").iterdir()):
        if path.suffix in (".js", ".css", ".woff2"):
            assert f"`{path.name}`" in page
    licences = re.findall(r"\((licences/[^)]+)\)", page)
    assert sorted(licences) == sorted(f"licences/{path.name}" for path in (SITE / "vendor/licences").iterdir())


def test_the_size_of_all_files_stays_sensible() -> None:
    assert sum(len(files.read_file(name).data) for name in files.list_names()) < 850_000


def test_the_page_has_a_row_for_each_format() -> None:
    table = re.search(r"FORMATS = \{\n(.*?)\n\};", (SITE / "formats/index.js").read_text("utf-8"), re.DOTALL)
    assert table is not None
    assert sorted(re.findall(r"^  (\w+): [A-Z0-9]+,$", table[1], re.MULTILINE)) == sorted(FORMATS)
