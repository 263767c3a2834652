"""Redaction beside its peers: recall, false hits, spans hidden in ordinary source, time of a reply; one run.

    .venv/bin/python bench/redaction.py [--cases CASES.jsonl]

The cases are labelled texts (`id`, `secret`, `text_base64`), kept outside this repository since they quote other
projects. They are split by the SHA-256 of their ids: rules were written looking at one half; the other is held back.
"""

import argparse
import base64
import hashlib
import json
import random
import subprocess
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import scanners
import tokens
from measure import machine, used

from fumehood.content import secrets

ROOT = Path(__file__).parents[1]
SEED = 20
ROUNDS = 2  # of synthetic tokens: each family in each context so often
TREE_BYTES = 3_000_000  # of ordinary source that is looked at; detect-secrets needs a minute for it
REPLIES = {"6 KB": 6_000, "117 KB": 117_000, "480 KB": 480_000}

Scan = Callable[[Mapping[str, bytes]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts by name, and which of them hold a credential."""

    texts: Mapping[str, bytes]
    secret: Mapping[str, bool]


def main() -> None:
    """Print the tables; without peers where no registry answers."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--cases", type=Path, help="labelled texts, one JSON object a line")
    asked.add_argument("--rounds", type=int, default=50, help="of the measurement of time")
    given = asked.parse_args()
    print(f"redaction beside its peers: {machine()}")
    scans: dict[str, Scan] = {"fumehood": _ours}
    found: scanners.Peers | None = None
    try:
        found = scanners.install(ROOT / ".cache" / "redaction-peers", ROOT / ".venv" / "bin" / "uv")
        scans |= {"detect-secrets": found.detect_secrets, "gitleaks": found.gitleaks}
    except subprocess.CalledProcessError:
        print("no registry answers: measured without peers")
    if given.cases:
        for half, labelled in halves(given.cases.read_text(encoding="utf-8")).items():
            _labelled(half, labelled, scans)
    _synthetic(scans)
    tree = ordinary()
    _tree(tree, scans)
    _time(tree, found, given.rounds)


def halves(lines: str) -> dict[str, Labelled]:
    """The cases, split by the SHA-256 of their ids."""
    rows = [json.loads(line) for line in lines.splitlines()]
    split: dict[str, Labelled] = {}
    for name, parity in (("seen while the rules were written", 0), ("held back", 1)):
        chosen = [row for row in rows if hashlib.sha256(str(row["id"]).encode()).digest()[0] % 2 == parity]
        split[name] = Labelled(
            {f"{number}.txt": base64.b64decode(row["text_base64"]) for number, row in enumerate(chosen)},
            {f"{number}.txt": row["secret"] for number, row in enumerate(chosen)},
        )
    return split


def ordinary() -> dict[str, bytes]:
    """Source of Python's own library, without its tests, in an order that its names do not decide."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in root.rglob("*.py") if not {"test", "tests", "site-packages"} & set(path.parts)]
    random.Random(SEED).shuffle(paths := sorted(paths))
    chosen: dict[str, bytes] = {}
    size = 0
    for path in paths:
        if size < TREE_BYTES:
            chosen[f"{len(chosen)}.py"] = data = path.read_bytes()
            size += len(data)
    return chosen


def _ours(texts: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(secrets.find(text)) for name, text in texts.items()}


def _labelled(half: str, labelled: Labelled, scans: Mapping[str, Scan]) -> None:
    positive = sum(labelled.secret.values())
    negative = len(labelled.secret) - positive
    print(f"\nLabelled texts, {half}: {positive} with a credential, {negative} without")
    print(f"  {'':<16}{'recall':>8}{'false':>8}")
    for name, scan in scans.items():
        hits = scan(labelled.texts)
        right = sum(labelled.secret[text] for text, count in hits.items() if count)
        wrong = sum(not labelled.secret[text] for text, count in hits.items() if count)
        print(f"  {name:<16}{right / positive:>8.2f}{wrong / negative:>8.2f}")


def _synthetic(scans: Mapping[str, Scan]) -> None:
    """A text counts as found when anything is; for us only if nothing of the token stands there afterwards."""
    made = {f"{number}.txt": sample for number, sample in enumerate(tokens.samples(SEED, ROUNDS))}
    texts = {name: sample.text.encode() for name, sample in made.items()}
    kinds = {"prefix tokens in plain contexts": tokens.PLAIN, "the same, encoded or split": tokens.ENCODED}
    count = len({sample.family for sample in made.values()})
    print(f"\nSynthetic tokens: {count} families, {len(tokens.PLAIN)} plain and {len(tokens.ENCODED)} encoded contexts")
    print(f"  {'':<16}" + "".join(f"{kind:>34}" for kind in kinds))
    for name, scan in scans.items():
        hits = scan(texts)
        gone = {n: bool(hits[n]) and (name != "fumehood" or _is_gone(made[n])) for n in made}
        cells = []
        for contexts in kinds.values():
            chosen = [n for n, sample in made.items() if sample.context in contexts]
            cells.append(sum(gone[n] for n in chosen) / len(chosen))
        print(f"  {name:<16}" + "".join(f"{cell:>34.3f}" for cell in cells))


def _is_gone(sample: tokens.Sample) -> bool:
    data = sample.text.encode()
    left = secrets.replace_bytes(data, secrets.find(data), lambda _span, _value: b"[]")
    return sample.token.encode() not in left and sample.token[len(sample.token) // 2 :].encode() not in left


def _tree(tree: Mapping[str, bytes], scans: Mapping[str, Scan]) -> None:
    size = sum(map(len, tree.values())) / 1e6
    print(f"\nOrdinary source: {len(tree)} files of Python's own library, {size:.1f} MB")
    print(f"  {'':<16}{'spans per MB':>14}")
    for name, scan in scans.items():
        print(f"  {name:<16}{sum(scan(tree).values()) / size:>14.1f}")


def _time(tree: Mapping[str, bytes], found: scanners.Peers | None, rounds: int) -> None:
    """CPU, which carries less noise of others than wall time."""
    text = b"".join(tree.values())
    print(f"\nTime of a reply (ms of CPU, median and least of {rounds})")
    for name, size in REPLIES.items():
        taken = []
        for _ in range(rounds):
            begun = used()
            secrets.find(text[:size])
            taken.append((used() - begun) * 1000)
        print(f"  fumehood, {name:<38}{sorted(taken)[rounds // 2]:>10.3f}{min(taken):>10.3f}")
    if found:
        small = text[: REPLIES["6 KB"]]
        seconds = found.detect_secrets_seconds(small, rounds)
        print(f"  {'detect-secrets, 6 KB, in a running process':<48}{seconds * 1000:>10.3f}")
        begun = used()
        found.gitleaks({"x.txt": small})
        print(f"  {'gitleaks, 6 KB, a process of its own':<48}{(used() - begun) * 1000:>10.3f}")


if __name__ == "__main__":
    main()
