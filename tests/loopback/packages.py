"""npm packages made in a test: a manifest and files, packed as `npm pack` does, the same bytes every time."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRONG_INTEGRITY = "sha512-" + base64.b64encode(hashlib.sha512(b"something else").digest()).decode()
INSTALL_SCRIPTS = ("preinstall", "install", "postinstall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One version of one package. `manifest` is its package.json; `files` are relative to the package."""

    manifest: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    executable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name, with its scope."""
        return str(self.manifest["name"])

    @property
    def version(self) -> str:
        """The version."""
        return str(self.manifest["version"])

    @property
    def tarball_name(self) -> str:
        """The last part of its tarball's address."""
        return f"{self.name.rpartition('/')[2]}-{self.version}.tgz"


def from_folder(folder: Path) -> Package:
    """The package that lies in `folder`, with everything in it but `node_modules`."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and "node_modules" not in path.parts
    }
    manifest = json.loads(files.pop("package.json"))
    executable = tuple(name for name in files if (folder / name).stat().st_mode & 0o100)
    return Package(manifest=manifest, files=files, executable=executable)


def pack(package: Package) -> bytes:
    """A gzipped tar with everything below `package/`, times and owners zero."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        everything = {"package.json": json.dumps(dict(package.manifest)).encode(), **package.files}
        for name, content in everything.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            entry.mode = 0o755 if name in package.executable else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def integrity_of(tarball: bytes) -> str:
    """The `sha512-…` that npm writes into a lock."""
    return "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()


def manifest_of(package: Package, tarball: bytes, *, integrity: str | None, base: str) -> dict[str, Any]:
    """What a packument says about one version. `integrity` may be a wrong one."""
    scripts = package.manifest.get("scripts", {})
    dist = {
        "tarball": f"{base}/{package.name}/-/{package.tarball_name}",
        "integrity": integrity or integrity_of(tarball),
        "shasum": hashlib.sha1(tarball).hexdigest(),
    }
    hooks = {"hasInstallScript": True} if any(name in scripts for name in INSTALL_SCRIPTS) else {}
    return {**package.manifest, **hooks, "dist": dist}
