"""Source distributions made in a test: a tree of files, or members as they stand, as a .tar.gz in memory."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopback.wheels import Wheel, pack

# A build backend of PEP 517 in the sources themselves: it writes the wheel that lies beside it, after what it is told.
BACKEND = """
import shutil

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {act}
    shutil.copy({wheel!r}, folder)
    return {wheel!r}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One source distribution. `members` are added as they stand."""

    name: str
    version: str = "1.0"
    files: Mapping[str, bytes] = field(default_factory=dict)
    members: Sequence[tarfile.TarInfo] = ()

    @property
    def filename(self) -> str:
        """The file's name (PEP 625)."""
        return f"{self.stem}.tar.gz"

    @property
    def stem(self) -> str:
        """The one folder of the archive."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    def pack(self) -> bytes:
        """The archive."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            for name, data in self.files.items():
                member = tarfile.TarInfo(f"{self.stem}/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            for member in self.members:
                tar.addfile(member, io.BytesIO(bytes(member.size)))
        return raw.getvalue()


def building(wheel: Wheel, act: str = "pass", requires: Sequence[str] = (), **changes: object) -> Sources:
    """Sources whose own backend does `act` and then leaves `wheel`."""
    quoted = ", ".join(f'"{one}"' for one in requires)
    project = f'[build-system]\nrequires = [{quoted}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {
        "pyproject.toml": project.encode(),
        "backend.py": BACKEND.format(act=act, wheel=wheel.filename).encode(),
        wheel.filename: pack(wheel),
    }
    return Sources(**{"name": wheel.name, "version": wheel.version, "files": files, **changes})  # type: ignore[arg-type]  # a table of keyword arguments
