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


KNOWN = "is not an image in a known format (PNG, JPEG, GIF, WEBP, BMP, TIFF, AVIF, ICO, JPEG2000, PPM)"
SVG = "is an SVG drawing, which models do not read: send it as PNG or JPEG"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", SVG),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<svg/>", SVG),
        (b"\n<!DOCTYPE html><title>404</title>", "is an HTML page, not an image"),
        (b"#include <stdio.h>", KNOWN),
        (b"%!PS-Adobe-3.0 EPSF-3.0", KNOWN),
        (sample_documents.pdf("x"), "is a PDF, not an image: send it as a file"),
        (
            b"\0\0\0\x18ftypheic" + bytes(40),
            "is an image in the format HEIC, which cannot be converted: send it as PNG or JPEG",
        ),
        (b"\x89PNG\r\n\x1a\n", "is a damaged image"),
    ],
)
def test_what_is_no_image_is_refused(data: bytes, why: str) -> None:
    assert refused(data) == why


@pytest.mark.parametrize("form", ["WEBP", "BMP", "TIFF", "GIF", "AVIF", "ICO", "JPEG2000", "PPM"])
def test_an_image_is_converted_if_the_server_does_not_read_its_format(form: str) -> None:
    seen = look(sample_documents.picture(40, 30, form), formats=("png", "jpeg"))
    assert seen.data is not None
    converted = Image.open(io.BytesIO(seen.data))
    assert (converted.format, seen.media_type) == ("JPEG", "image/jpeg")
    assert converted.size == (seen.width, seen.height)


def test_an_image_is_converted_to_a_format_that_the_server_reads() -> None:
    transparent = io.BytesIO()
    Image.new("RGBA", (2, 2)).save(transparent, "WEBP", lossless=True)
    assert look(transparent.getvalue(), formats=("png", "jpeg")).media_type == "image/png"
    seen = look(transparent.getvalue(), formats=("jpeg",))
    assert seen.data is not None and Image.open(io.BytesIO(seen.data)).getpixel((0, 0)) == (255, 255, 255)
    assert look(sample_documents.picture(4, 4, "BMP"), formats=("png",)).media_type == "image/png"


def test_heic_goes_on_to_a_server_that_reads_it() -> None:
    assert look(b"\0\0\0\x18ftypheic" + bytes(40), formats=("png", "heic")).media_type == "image/heic"


@pytest.mark.parametrize(("mode", "value"), [("I;16", 0x8080), ("I", 0x8080), ("F", 32896.0)])
def test_an_image_of_many_bits_for_a_pixel_keeps_its_shades(mode: str, value: float) -> None:
    image, data = Image.new(mode, (2, 1), 65535), io.BytesIO()
    image.putpixel((0, 0), value)
    image.save(data, "TIFF")
    seen = look(data.getvalue())
    assert seen.data is not None
    assert [round(Image.open(io.BytesIO(seen.data)).convert("L").getpixel((x, 0)), -1) for x in (0, 1)] == [130, 260]  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{"formats": ("jpeg",)}, {"max_pixels": 1_000_000}, {"max_bytes": 10}])
def test_an_image_whose_side_cannot_be_encoded_is_no_damaged_image(limits: dict[str, Any]) -> None:
    long = io.BytesIO()
    Image.new("1", (800_000, 8)).save(long, "PNG")
    why = "is an image of 800000 x 8 pixels; at most 65500 on a side can be converted"
    assert refused(long.getvalue(), decode_pixels=10_000_000, **limits) == why
    assert look(long.getvalue(), decode_pixels=10_000_000).data is None


@pytest.mark.parametrize("limits", [{"max_short_side": 50}, {"formats": ("jpeg",)}, {"decode": True}])
def test_an_image_that_breaks_off_is_refused_when_it_must_be_decoded(limits: dict[str, Any]) -> None:
    data = sample_documents.picture(200, 100)
    assert refused(data[:2000], **limits).startswith("is a damaged image (")
    assert look(data[:2000]).data is None
    assert look(data, decode=True).data is None
