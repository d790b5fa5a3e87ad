"""Identify images from their bytes, refuse those too large to decode, and change them to what a model accepts."""

import io
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

from app.attachments.documents.protocol import PictureJob, PictureResult, UnreadableFile
from app.chat.media_types import HEAD_BYTES, detect_type

_READ = {
    "PNG": "png",
    "JPEG": "jpeg",
    "MPO": "jpeg",  # a JPEG with a second image, as telephones make it
    "GIF": "gif",
    "WEBP": "webp",
    "BMP": "bmp",
    "TIFF": "tiff",
    "AVIF": "avif",
    "ICO": "ico",
    "JPEG2000": "jp2",
    "PPM": "pnm",
}
"""The names of formats in a profile, by Pillow's."""
_QUALITY = 88
_SHRINK = 0.75
_SMALLEST = 32
_MAX_SIDE = 65_500
"""The longest side of a JPEG that libjpeg encodes."""
_TEXT_BYTES = 1024

Image.init()
Image.MAX_IMAGE_PIXELS = None  # each job has its own limit
_FORMATS = tuple(name for name in _READ if name in Image.OPEN)
_SEND = "send it as PNG or JPEG"


def scale_picture(job: PictureJob, data: bytes) -> PictureResult:
    """Identify an image, and scale or convert it where the job's limits demand it.

    Nothing is decoded before the declared size is checked. Raises UnreadableFile.
    """
    scales = job.max_pixels or job.max_short_side or job.max_bytes
    media_type = detect_type(data[:HEAD_BYTES]) or ""
    if media_type in ("image/heic", "image/heif") and media_type.removeprefix("image/") in job.formats and not scales:
        return PictureResult(media_type, 0, 0, None)
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return _convert(image, job, len(data))
    except UnidentifiedImageError:
        raise UnreadableFile(_explain(data, media_type)) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise UnreadableFile(f"is a damaged image ({str(error)[:100]})") from None


def _convert(image: Image.Image, job: PictureJob, data_bytes: int) -> PictureResult:
    width, height = image.size
    if width * height > job.decode_pixels:
        raise UnreadableFile(f"has {width} x {height} pixels; at most {job.decode_pixels} are allowed")
    size = _fit_size(width, height, job)
    small = job.max_bytes is None or data_bytes <= job.max_bytes
    name = _READ[image.format or ""]
    if name in job.formats and size == (width, height) and small:
        if job.decode:
            image.load()
        return PictureResult(f"image/{name}", width, height, None)
    if max(size) > _MAX_SIDE:
        raise UnreadableFile(
            f"is an image of {width} x {height} pixels; at most {_MAX_SIDE} on a side can be converted"
        )
    return _shrink(image, size, job)


def _explain(data: bytes, media_type: str) -> str:
    """Say what it is that is no image which can be read."""
    start = data[:_TEXT_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not data:
        return "is empty"
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!--", b"<!doctype svg")) and b"<svg" in start):
        return f"is an SVG drawing, which models do not read: {_SEND}"
    if start.startswith((b"<!doctype html", b"<html")):
        return "is an HTML page, not an image"
    if media_type == "application/pdf":
        return "is a PDF, not an image: send it as a file"
    if media_type in ("image/heic", "image/heif"):
        return f"is an image in the format HEIC, which cannot be converted: {_SEND}"
    if media_type.startswith("image/"):
        return "is a damaged image"
    return f"is not an image in a known format ({', '.join(name for name in _FORMATS if name != 'MPO')})"


def _fit_size(width: int, height: int, job: PictureJob) -> tuple[int, int]:
    factor = 1.0
    if job.max_pixels:
        factor = min(factor, (job.max_pixels / (width * height)) ** 0.5)
    if job.max_short_side:
        factor = min(factor, job.max_short_side / min(width, height))
    return (width, height) if factor == 1.0 else _scale_size(width, height, factor)


def _scale_size(width: int, height: int, factor: float) -> tuple[int, int]:
    return max(1, int(width * factor)), max(1, int(height * factor))


def _shrink(image: Image.Image, size: tuple[int, int], job: PictureJob) -> PictureResult:
    if image.format == "JPEG":
        image.draft("RGB", size)
    turned = ImageOps.exif_transpose(image)
    if turned.width != image.width and turned.width == image.height:
        size = size[1], size[0]
    plain = _to_rgb(turned, transparent="png" in job.formats)
    while True:
        scaled = plain if plain.size == size else plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
        media_type, data = _encode(scaled, job.formats)
        if job.max_bytes is None or len(data) <= job.max_bytes:
            return PictureResult(media_type, *size, data)
        if min(size) < _SMALLEST:
            raise UnreadableFile(f"cannot be scaled down to {job.max_bytes} bytes, the limit of this model")
        size = _scale_size(*size, _SHRINK)


def _to_rgb(image: Image.Image, *, transparent: bool) -> Image.Image:
    """Return the image as RGB or, if it has transparent parts and may keep them, as RGBA; else they become white."""
    if image.mode[:1] in ("I", "F"):  # 16 or 32 bits for a pixel, of which Pillow would cut the values above 255
        white = 65535.0 if image.mode.startswith("I;16") else max(255.0, _brightest(image))
        image = image.convert("F").point(lambda value: value * (255 / white)).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    if transparent:
        return layered
    flat = Image.new("RGB", layered.size, "white")
    flat.paste(layered, mask=layered)
    return flat


def _brightest(image: Image.Image) -> float:
    darkest_and_brightest: Any = image.getextrema()
    return float(darkest_and_brightest[1])


def _encode(image: Image.Image, formats: tuple[str, ...]) -> tuple[str, bytes]:
    out = io.BytesIO()
    if image.mode == "RGBA" or "jpeg" not in formats:
        image.save(out, "PNG")
        return "image/png", out.getvalue()
    image.save(out, "JPEG", quality=_QUALITY)
    return "image/jpeg", out.getvalue()
