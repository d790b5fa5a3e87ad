"""Identify images from their bytes, refuse those too large to decode, and scale them to a model's limits."""

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from app.attachments.documents.protocol import PictureJob, PictureResult, UnreadableFile

_PASSED = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""The formats that model servers accept; images in others are converted."""
_READ = (*_PASSED, "BMP", "TIFF", "AVIF")
_QUALITY = 88
_SHRINK = 0.75
_SMALLEST = 32

Image.init()
Image.MAX_IMAGE_PIXELS = None  # each job has its own limit
_FORMATS = tuple(name for name in _READ if name in Image.OPEN)


def scale_picture(job: PictureJob, data: bytes) -> PictureResult:
    """Identify an image and scale it where the job's limits demand it.

    Nothing is decoded before the declared size is checked. Raises UnreadableFile.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > job.decode_pixels:
                raise UnreadableFile(f"has {width} x {height} pixels; at most {job.decode_pixels} are allowed")
            size = _fit_size(width, height, job)
            small = job.max_bytes is None or len(data) <= job.max_bytes
            if image.format in _PASSED and size == (width, height) and small:
                return PictureResult(_PASSED[image.format], width, height, None)
            return _shrink(image, size, job.max_bytes)
    except UnidentifiedImageError:
        raise UnreadableFile(f"is not an image in a known format ({', '.join(_FORMATS)})") from None
    except (OSError, SyntaxError, ValueError):
        raise UnreadableFile("is a damaged image") from None


def _fit_size(width: int, height: int, job: PictureJob) -> tuple[int, int]:
    factor = 1.0
    if job.max_pixels:
        factor = min(factor, (job.max_pixels / (width * height)) ** 0.5)
    if job.max_short_side:
        factor = min(factor, job.max_short_side / min(width, height))
    return (width, height) if factor == 1.0 else _scale_size(width, height, factor)


def _scale_size(width: int, height: int, factor: float) -> tuple[int, int]:
    return max(1, int(width * factor)), max(1, int(height * factor))


def _shrink(image: Image.Image, size: tuple[int, int], max_bytes: int | None) -> PictureResult:
    if image.format == "JPEG":
        image.draft("RGB", size)
    turned = ImageOps.exif_transpose(image)
    if turned.width != image.width and turned.width == image.height:
        size = size[1], size[0]
    plain = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    while True:
        scaled = plain if plain.size == size else plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
        media_type, data = _encode(scaled)
        if max_bytes is None or len(data) <= max_bytes:
            return PictureResult(media_type, *size, data)
        if min(size) < _SMALLEST:
            raise UnreadableFile(f"cannot be scaled down to {max_bytes} bytes, the limit of this model")
        size = _scale_size(*size, _SHRINK)


def _encode(image: Image.Image) -> tuple[str, bytes]:
    out = io.BytesIO()
    if image.mode == "RGBA":
        image.save(out, "PNG")
        return "image/png", out.getvalue()
    image.save(out, "JPEG", quality=_QUALITY)
    return "image/jpeg", out.getvalue()
