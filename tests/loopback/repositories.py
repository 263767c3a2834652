"""Bare git repositories written object by object, so that they can hold what git itself would refuse to write.

Nothing here starts a process. Object ids are SHA-1. Sources: gitformat-pack(5), gitrepository-layout(5).
"""

import binascii
import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

FILE, PROGRAM, LINK, FOLDER, SUBMODULE = b"100644", b"100755", b"120000", b"40000", b"160000"
PERSON = b"A Person <person@example.invalid> 1767225600 +0000"
CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
[uploadpack]
\tallowAnySHA1InWant = true
\tallowFilter = true
"""
CHUNK = 1024 * 1024
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a tree. `name` is written as it stands: a slash or a `.git` is up to the test."""

    name: bytes
    mode: bytes
    id: str


class Repository:
    """One bare repository in a new folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
            (folder / part).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(CONFIG)

    def blob(self, content: bytes) -> str:
        """A file's content."""
        return self._write(b"blob", content)

    def tree(self, *entries: Entry) -> str:
        """A folder, its entries in the order given."""
        return self._write(b"tree", b"".join(e.mode + b" " + e.name + b"\0" + bytes.fromhex(e.id) for e in entries))

    def files(self, content: Mapping[str, bytes | Entry]) -> str:
        """A tree of ordinary files by their paths; an `Entry` stands for itself under its last name."""
        folders: dict[str, dict[str, bytes | Entry]] = {}
        entries: list[Entry] = []
        for path, value in content.items():
            first, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(first, {})[rest] = value
            elif isinstance(value, Entry):
                entries.append(Entry(first.encode(), value.mode, value.id))
            else:
                entries.append(Entry(first.encode(), FILE, self.blob(value)))
        entries += [Entry(name.encode(), FOLDER, self.files(below)) for name, below in folders.items()]
        return self.tree(*sorted(entries, key=lambda e: e.name + (b"/" if e.mode == FOLDER else b"")))

    def link(self, target: str) -> Entry:
        """A symbolic link; its name is the key under which it is given to `files`."""
        return Entry(b"", LINK, self.blob(target.encode()))

    def commit(self, tree: str, *, parents: tuple[str, ...] = (), branch: str | None = "main") -> str:
        """A commit of `tree`, to which `branch` then points."""
        lines = [b"tree " + tree.encode(), *(b"parent " + p.encode() for p in parents)]
        body = b"\n".join([*lines, b"author " + PERSON, b"committer " + PERSON, b"", b"one commit\n"])
        made = self._write(b"commit", body)
        if branch is not None:
            (self.folder / "refs/heads" / branch).write_text(f"{made}\n")
        return made

    def tag(self, commit: str, name: str = "v1") -> str:
        """An annotated tag: an object of its own, which resolves to `commit` but is none."""
        lines = [b"object " + commit.encode(), b"type commit", b"tag " + name.encode(), b"tagger " + PERSON]
        made = self._write(b"tag", b"\n".join([*lines, b"", b"one tag\n"]))
        (self.folder / "refs/tags" / name).write_text(f"{made}\n")
        return made

    def zeros(self, size: int) -> str:
        """A blob of `size` zero bytes (a multiple of 1 MiB) in a pack of about a thousandth of it."""
        assert size % CHUNK == 0
        return _write_zero_pack(self.folder / "objects/pack", size)

    def _write(self, kind: bytes, content: bytes) -> str:
        raw = kind + b" " + str(len(content)).encode() + b"\0" + content
        name = hashlib.sha1(raw).hexdigest()
        path = self.folder / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(raw, 1))
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A repository with the commit that a test asks for."""

    repository: Repository
    commit: str

    @classmethod
    def ordinary(cls, folder: Path, files: Mapping[str, bytes]) -> Self:
        """Ordinary files in one commit, after an earlier one that lacks the last of them."""
        repository = Repository(folder)
        names = list(files)
        first = repository.commit(repository.files({name: files[name] for name in names[:-1]}))
        return cls(repository=repository, commit=repository.commit(repository.files(files), parents=(first,)))

    @classmethod
    def git_folder(cls, folder: Path, *, name: bytes = b".GIT") -> Self:
        """A tree with a hook below `.GIT/hooks`, which a file system that ignores case would run (CVE-2014-9390)."""
        repository = Repository(folder)
        hook = Entry(b"post-checkout", PROGRAM, repository.blob(b"#!/bin/sh\ntouch /tmp/hook-ran\n"))
        hooks = repository.tree(Entry(b"hooks", FOLDER, repository.tree(hook)))
        return cls(repository=repository, commit=repository.commit(repository.tree(Entry(name, FOLDER, hooks))))

    @classmethod
    def git_links(cls, folder: Path) -> Self:
        """Symbolic links with git's own names, one of them `.gitmodules` (CVE-2018-11235's relatives)."""
        repository = Repository(folder)
        names = (".GIT", ".gitmodules", "git~1")
        entries = [Entry(name.encode(), LINK, repository.blob(b"/etc/passwd")) for name in names]
        return cls(repository=repository, commit=repository.commit(repository.tree(*entries)))

    @classmethod
    def path_escape(cls, folder: Path) -> Self:
        """A tree whose entry is named `..`, and in it a file."""
        repository = Repository(folder)
        below = repository.tree(Entry(b"escaped", FILE, repository.blob(b"outside\n")))
        return cls(repository=repository, commit=repository.commit(repository.tree(Entry(b"..", FOLDER, below))))

    @classmethod
    def pack_bomb(cls, folder: Path, size: int) -> Self:
        """One file of `size` zeros: small to send, as large as `size` to write."""
        repository = Repository(folder)
        tree = repository.tree(Entry(b"bomb.bin", FILE, repository.zeros(size)))
        return cls(repository=repository, commit=repository.commit(tree))

    @classmethod
    def tree_bomb(cls, folder: Path, *, depth: int = 10, width: int = 10) -> Self:
        """A dozen small objects that unfold to `width ** depth` files."""
        repository = Repository(folder)
        below = Entry(b"", FILE, repository.blob(b"x"))
        for _ in range(depth):
            entries = (Entry(f"f{i:03}".encode(), below.mode, below.id) for i in range(width))
            below = Entry(b"", FOLDER, repository.tree(*entries))
        return cls(repository=repository, commit=repository.commit(below.id))

    @classmethod
    def submodule_and_lfs(cls, folder: Path, files: Mapping[str, bytes]) -> Self:
        """Ordinary files, a submodule of another host, and a pointer of git's large file storage."""
        repository = Repository(folder)
        modules = b'[submodule "inner"]\n\tpath = inner\n\turl = https://forge.invalid/inner.git\n'
        everything: dict[str, bytes | Entry] = {
            **files,
            ".gitmodules": modules,
            ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "large.bin": LFS_POINTER,
            "inner": Entry(b"", SUBMODULE, "1" * 40),
        }
        return cls(repository=repository, commit=repository.commit(repository.files(everything)))


def _zero_stream(size: int) -> Iterator[bytes]:
    """A zlib stream of `size` zeros. A full flush makes each block independent, so that one is made and repeated."""
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = block.compress(bytes(CHUNK)) + block.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15).flush(zlib.Z_FINISH)
    yield b"\x78\x9c"
    for _ in range(size // CHUNK):
        yield once
    checksum = 1
    for _ in range(size // CHUNK):
        checksum = zlib.adler32(bytes(CHUNK), checksum)
    yield last + struct.pack(">I", checksum)


def _write_zero_pack(folder: Path, size: int) -> str:
    """Write a pack with one blob of zeros and its index (version 2); return the blob's id."""
    digest = hashlib.sha1(b"blob " + str(size).encode() + b"\0")
    for _ in range(size // CHUNK):
        digest.update(bytes(CHUNK))
    entry = _entry_header(3, size) + b"".join(_zero_stream(size))
    head = b"PACK" + struct.pack(">II", 2, 1)
    trailer = hashlib.sha1(head + entry).digest()
    index = b"\xfftOc" + struct.pack(">I", 2)
    index += b"".join(struct.pack(">I", int(i >= digest.digest()[0])) for i in range(256))
    index += digest.digest() + struct.pack(">II", binascii.crc32(entry), len(head)) + trailer
    index += hashlib.sha1(index).digest()
    name = f"pack-{trailer.hex()}"
    (folder / f"{name}.pack").write_bytes(head + entry + trailer)
    (folder / f"{name}.idx").write_bytes(index)
    return digest.hexdigest()


def _entry_header(kind: int, size: int) -> bytes:
    """Type and size of a packed object, seven bits a byte after the first four."""
    first, size = (kind << 4) | (size & 0x0F), size >> 4
    out = bytearray()
    while size:
        out.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    out.append(first)
    return bytes(out)
