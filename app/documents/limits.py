"""How much the reading of one document or picture may cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    workers: int = 2
    max_waiting: int = 64
    """Jobs that wait for a worker; one more is told to come back later."""
    wall_seconds: float = 20.0
    cpu_seconds: int = 15
    memory_bytes: int = 1024 * 1024 * 1024
    """Address space of the process that reads."""
    max_pages: int = 500
    """Pages, slides or sheets whose text is read; the others are left out."""
    max_characters: int = 400_000
    max_unpacked_bytes: int = 128 * 1024 * 1024
    """Of the archive that an Office document is."""
    max_pixels: int = 64_000_000
    """An image with more is refused undecoded."""
