"""How well injected instructions are seen, and what looking costs.

    .venv/bin/python bench/injection.py [--corpus injections.jsonl]

The corpus is that of the wheel `bastioncorpus` (MIT), read as data and never imported; it is split in two by a hash of
each row's name. The phrases were written with the first half in view; the second was held back from it. Ordinary files
are those of Python's standard library and of /usr/share/doc.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from fumehood.content import control, injection
from fumehood.content.passage import Answer, Passage
from fumehood.core.untrusted import Untrusted

ROOT = Path(__file__).parents[1]
PACKAGE = "bastioncorpus==0.6.0"
TARGET = ROOT / ".cache" / "bastioncorpus"
LEVELS = ("low", "medium", "high")
SIZES = (6_000, 117_000, 480_000)
ROUNDS = 40
FILES = 1500  # of each kind


def main() -> None:
    """Print recall and false hits on either half, flags on ordinary files, and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="injections.jsonl, where the wheel is not to be installed")
    rows = _rows(parser.parse_args().corpus or _installed())
    print(f"{'':<22}{'at least':<10}{'recall':>16}{'false':>14}")
    for half, title in enumerate(("in view", "held back")):
        _print_half(title, [row for row in rows if _half(row) == half])
    for title, files in (("standard library", _sources()), ("/usr/share/doc", _documents())):
        _print_ordinary(title, files)
    _print_times()


def _installed() -> Path:
    corpus = TARGET / "bastioncorpus" / "corpus" / "injections.jsonl"
    if not corpus.exists():
        uv = Path(sys.executable).parent / "uv"
        command: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--target",
            TARGET,
            PACKAGE,
        ]
        subprocess.run(command, check=True, timeout=120)
    return corpus


def _rows(corpus: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines() if line.strip()]


def _half(row: dict[str, str]) -> int:
    return hashlib.sha256(row["id"].encode()).digest()[0] & 1


def _level(data: bytes) -> str:
    return injection.scan([injection.Source(data=data, place="text")]).level


def _print_half(title: str, rows: Sequence[dict[str, str]]) -> None:
    levels = [
        (row.get("label", "malicious") == "malicious", row.get("lang", "en"), _level(row["text"].encode()))
        for row in rows
    ]
    hostile = [level for is_hostile, _, level in levels if is_hostile]
    benign = [level for is_hostile, _, level in levels if not is_hostile]
    for level in LEVELS:
        print(f"{title:<22}{level:<10}{_share(hostile, level):>16}{_share(benign, level):>14}")
    others = [level for is_hostile, language, level in levels if is_hostile and language != "en"]
    print(f"{title + ', not English':<22}{'medium':<10}{_share(others, 'medium'):>16}")


def _share(levels: Sequence[str], least: str) -> str:
    flagged = sum(level in LEVELS[LEVELS.index(least) :] for level in levels)
    return f"{flagged}/{len(levels)} {flagged / max(len(levels), 1):.2f}"


def _sources() -> Iterator[Path]:
    yield from sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))


def _documents() -> Iterator[Path]:
    yield from (path for path in sorted(Path("/usr/share/doc").rglob("*")) if path.is_file() and path.suffix != ".gz")


def _print_ordinary(title: str, files: Iterable[Path]) -> None:
    levels: Counter[str] = Counter()
    size = 0
    for path in files:
        if levels.total() == FILES:
            break
        data = path.read_bytes()
        if b"\0" not in data and "site-packages" not in path.parts:
            levels[_level(data)] += 1
            size += len(data)
    flagged = ", ".join(f"{levels[level]} {level}" for level in LEVELS)
    print(f"{title}: {levels.total()} files, {size / 1e6:.1f} MB: {flagged}")


def _print_times() -> None:
    source = b"".join(path.read_bytes() for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60])
    source = source.decode("utf-8", "replace").encode("ascii", "replace")
    controls = control.Controls(key=b"k" * 32)
    print(f"{'CPU ms, least of ' + str(ROUNDS):<24}{'scan':>8}{'present':>9}")
    for size in SIZES:
        data = source[:size].rpartition(b"\n")[0] + b"\n"
        passage = Passage(text=Untrusted(data, source="bench"), first_line=1)
        answer = Answer(passages=(passage,), facts={"path": "a.py", "total_lines": data.count(b"\n")})
        scan = _least(lambda data=data: injection.scan([injection.Source(data=data, place="text")]))  # type: ignore[misc]  # bound early
        whole = _least(lambda answer=answer: control.present(answer, controls))  # type: ignore[misc]  # bound early
        print(f"{size // 1000:>6} KB{'':<15}{scan:>8.2f}{whole:>9.2f}")


def _least(run: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        run()
        times.append(time.thread_time() - begun)
    return min(times) * 1000


if __name__ == "__main__":
    main()
