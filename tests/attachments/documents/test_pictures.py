"""Images are what their bytes say, are never decoded above the limit, and become smaller where a model wants it."""

import io
from typing import Any

import pytest
from app.attachments.documents.protocol import JobRefused, PictureJob, PictureResult
from app.attachments.documents.worker_main import run_job
from PIL import Image

from tests.attachments.documents import sample_documents


def look(data: bytes, **limits: Any) -> PictureResult:
    reply = run_job(PictureJob(data, False, **{"decode_pixels": 1_000_000, **limits}))
    assert isinstance(reply, PictureResult), reply
    return reply


def refused(data: bytes, **limits: Any) -> str:
    reply = run_job(PictureJob(data, False, **{"decode_pixels": 1_000_000, **limits}))
    assert isinstance(reply, JobRefused)
    return reply.message


@pytest.mark.parametrize(("form", "media_type"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("WEBP", "webp")])
def test_an_image_within_the_limits_keeps_its_bytes(form: str, media_type: str) -> None:
    assert look(sample_documents.picture(40, 30, form)) == PictureResult(f"image/{media_type}", 40, 30, None)


@pytest.mark.parametrize(("form", "mode", "media_type"), [("BMP", "RGB", "image/jpeg"), ("TIFF", "RGBA", "image/png")])
def test_an_image_of_a_rare_kind_is_encoded_anew(form: str, mode: str, media_type: str) -> None:
    seen = look(sample_documents.picture(40, 30, form, mode))
    assert (seen.media_type, seen.width, seen.height) == (media_type, 40, 30)
    assert seen.data is not None and Image.open(io.BytesIO(seen.data)).size == (40, 30)


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ({"max_short_side": 30}, (60, 30)),
        ({"max_pixels": 5000}, (100, 50)),
        ({"max_pixels": 5000, "max_short_side": 10}, (20, 10)),
        ({"max_short_side": 100}, (200, 100)),
    ],
)
def test_an_image_above_a_limit_is_scaled_and_keeps_its_shape(limits: dict[str, int], size: tuple[int, int]) -> None:
    seen = look(sample_documents.picture(200, 100), **limits)
    assert (seen.width, seen.height) == size
    assert (seen.data is None) is (size == (200, 100))
    if seen.data is not None:
        assert Image.open(io.BytesIO(seen.data)).size == size


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_of_too_many_bytes_is_made_smaller_until_it_fits(mode: str) -> None:
    seen = look(sample_documents.picture(400, 300, mode=mode), max_bytes=20_000)
    assert seen.data is not None and len(seen.data) <= 20_000
    assert (
        refused(sample_documents.picture(40, 30), max_bytes=10)
        == "cannot be scaled down to 10 bytes, the limit of this model"
    )


def test_a_photograph_that_lies_on_its_side_is_turned_up_when_it_is_scaled() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    seen = look(sample_documents.picture(200, 100, "JPEG", exif=exif.tobytes()), max_short_side=50)
    assert (seen.width, seen.height) == (50, 100)


def test_a_bomb_is_refused_by_the_size_it_declares() -> None:
    assert refused(sample_documents.huge_png(50_000, 50_000)).startswith("has 50000 x 50000 pixels")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not an image in a known format (PNG, JPEG, GIF, WEBP, BMP, TIFF, AVIF)"),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            "is not an image in a known format (PNG, JPEG, GIF, WEBP, BMP, TIFF, AVIF)",
        ),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "is not an image in a known format (PNG, JPEG, GIF, WEBP, BMP, TIFF, AVIF)"),
        (sample_documents.pdf("x"), "is not an image in a known format (PNG, JPEG, GIF, WEBP, BMP, TIFF, AVIF)"),
    ],
)
def test_what_is_no_image_is_refused(data: bytes, why: str) -> None:
    assert refused(data) == why


def test_an_image_that_breaks_off_is_refused_when_it_must_be_decoded() -> None:
    assert refused(sample_documents.picture(200, 100)[:2000], max_short_side=50) == "is a damaged image"
