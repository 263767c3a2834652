"""The service."""

from urllib.parse import urlsplit

DATABASE_URL = "postgresql://harbour:c0pper-Kettle-71@db.internal:5432/boats"


def connect(url: str = DATABASE_URL) -> str:
    """The host of the database."""
    return urlsplit(url).hostname or "localhost"
