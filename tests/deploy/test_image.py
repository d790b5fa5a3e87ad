"""The image: what it will have, and that the gateway does without what it will not have."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
BUDGET = tomllib.loads((ROOT / "deploy/image/budget.toml").read_text("utf-8"))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy/image" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


trim = load("trim")
NEEDED: set[str] = trim.find_needed(trim.read_requirements())
LOCKED = {
    trim.normalize(line.partition("==")[0])
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    if "==" in line and not line.startswith((" ", "#"))
}


def test_the_image_has_only_what_is_locked() -> None:
    assert NEEDED <= LOCKED


@pytest.mark.parametrize(("extra", "package"), [("otel", "opentelemetry-sdk"), ("postgres", "psycopg-binary")])
def test_the_image_keeps_the_packages_of_a_selected_extra(extra: str, package: str) -> None:
    assert package not in NEEDED and package in trim.find_needed(trim.read_requirements([extra]))


def test_what_is_left_out_is_required_by_the_package_that_is_named() -> None:
    for dependent, name in trim.UNUSED:
        required = {trim.normalize(trim.Requirement(one).name) for one in metadata.requires(dependent) or ()}
        assert dependent in NEEDED and name in required and name not in NEEDED, (dependent, name)


def test_the_packages_of_the_image_are_within_their_budget() -> None:
    sizes = {name: sum(file.stat().st_size for file in trim.find_files(name)) for name in NEEDED}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    total = sum(sizes.values()) / 1e6
    assert 0.5 * BUDGET["packages"] < total <= BUDGET["packages"], (total, {name: sizes[name] for name in largest})


BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"the gateway imports {name}, which the image does not have", name=name)

sys.meta_path.insert(0, Blocker())
"""
USE = """
import base64, io, runpy
import httpx, openpyxl
from docx import Document
from PIL import Image
from pptx import Presentation
from tokenizers import Tokenizer, models
from pathlib import Path
from app.attachments.documents import office, pictures
from app.attachments.documents.parts import Budget
from app.runtime.token_counting import load_counter

folder = Path(sys.argv[1])
word, slides, sheet, picture = (io.BytesIO() for _ in range(4))
document = Document(); document.add_paragraph("text"); document.save(word)
Presentation().save(slides)
openpyxl.Workbook().save(sheet)
budget = Budget(1_000, 10)
assert office.docx(word.getvalue(), budget).text == "text"
assert office.pptx(slides.getvalue(), budget)[1] == 0
assert office.xlsx(sheet.getvalue(), budget)[1] == 1
Image.new("RGB", (8, 8)).save(picture, "PNG")
assert pictures
Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
assert load_counter(folder / "tokenizer.json").count("a") == 1
ranks = "".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\\n" for byte in range(256))
(folder / "r.tiktoken").write_text(ranks)
assert load_counter(folder / "r.tiktoken").count("<|endoftext|> b") > 1
httpx.Client().close()
try:
    runpy.run_path("deploy/image/check_imports.py", run_name="__main__")
except SystemExit as ended:
    sys.exit(ended.code)
"""


def test_the_gateway_does_without_what_the_image_leaves_out(tmp_path: Path) -> None:
    distributions = metadata.packages_distributions()
    left_out = LOCKED - NEEDED
    names = {
        module
        for module, names in distributions.items()
        if {trim.normalize(name) for name in names} <= left_out and not module.startswith("_")
    }
    assert "huggingface_hub" in names
    # The extras that only developers install bring some of these packages back.
    extras = "sys.modules.update(dict.fromkeys(('opentelemetry.sdk', 'psycopg')))\n"
    program = BLOCK % sorted(names) + extras + USE
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr


def test_a_selected_extra_must_be_importable() -> None:
    program = BLOCK % ["psycopg"] + "import runpy\nrunpy.run_path('deploy/image/check_imports.py', run_name='__main__')"
    command = [sys.executable, "-c", program]
    for extras, code in (["otel"], 0), (["otel", "postgres"], 1):
        ended = subprocess.run([*command, *extras], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert (ended.returncode, "app.state.postgres" in ended.stderr) == (code, bool(code)), ended.stderr


FAKE_ENGINE = """#!{python}
import io, json, sys, tarfile
if sys.argv[1:3] == ["image", "inspect"]:
    print(json.dumps([{{"RootFS": {{"Layers": ["base"] if sys.argv[3].startswith("python") else {layers}}}}}]))
elif sys.argv[1] == "save":
    with tarfile.open(sys.argv[3], "w") as archive:
        def add(name, data):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for name, size in (("base.tar", 500_000_000), ("own.tar", {size})):
            layer = io.BytesIO()
            with tarfile.open(fileobj=layer, mode="w") as inner:
                entry = tarfile.TarInfo("srv/parley/.venv/lib/python3.12/site-packages/large/module.so")
                entry.size = size if name == "own.tar" else 10
                inner.addfile(entry, io.BytesIO(bytes(entry.size)))
            add(name, layer.getvalue())
        add("manifest.json", json.dumps([{{"Layers": ["base.tar", "own.tar"]}}]).encode())
"""


@pytest.mark.parametrize(
    "size, layers, code, verdict",
    [
        (1_000_000, ["base", "own"], 0, "within the budget"),
        (BUDGET["layers"] * 1_000_000, ["base", "own"], 1, "above the budget"),
        (1_000_000, ["other", "own"], 2, "was not built on this"),
    ],
)
def test_the_size_of_the_own_layers_is_compared_with_the_budget(
    size: int, layers: list[str], code: int, verdict: str, tmp_path: Path
) -> None:
    engine = tmp_path / "engine"
    engine.write_text(FAKE_ENGINE.format(python=sys.executable, size=size, layers=json.dumps(layers)), "utf-8")
    engine.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "scripts/image-size", "--engine", str(engine)], cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, verdict in ended.stdout + ended.stderr) == (code, True), ended.stderr


def test_the_files_that_the_dockerfile_copies_are_in_the_build_context() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = [line.split()[1] for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if "COPY " in line]
    copied = [source for source in copied if not source.startswith("--")]
    assert copied and {*copied} <= {*allowed}
    assert all((ROOT / source).exists() for source in allowed)


def test_the_size_script_is_executable() -> None:
    assert os.access(ROOT / "scripts/image-size", os.X_OK)
