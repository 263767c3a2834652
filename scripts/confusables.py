"""Write src/fumehood/data/confusables.txt from the table of the package `confusable-homoglyphs`.

    python scripts/confusables.py confusables.json > src/fumehood/data/confusables.txt

That package carries Unicode's confusables.txt (UTS #39) as JSON. Kept is what looks like one ASCII letter or digit and
is not brought to it by NFKC already. Capital look-alikes of `I` have the prototype `l` there; they are given as `i`.
"""

import json
import string
import sys
import unicodedata
from pathlib import Path

HEADER = """\
# Characters that look like one ASCII letter or digit and that NFKC does not fold: the character, then its look-alikes.
# Made by scripts/confusables.py from confusable-homoglyphs 3.3.1 (MIT), which carries Unicode's confusables.txt (UTS
# #39). Copyright 1991-2024 Unicode, Inc.; distributed under the Unicode License V3, https://www.unicode.org/license.txt
"""


def main() -> None:
    """Print the table."""
    table = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    alike: dict[str, list[str]] = {}
    for plain in string.ascii_letters + string.digits:
        for entry in table.get(plain, ()):
            character = entry["c"]
            if len(character) == 1 and not character.isascii() and _is_unfolded(character):
                alike.setdefault(_target(character, plain, table), []).append(character)
    sys.stdout.write(HEADER)
    for target, characters in sorted(alike.items()):
        print(target + "\t" + "".join(sorted(set(characters))))


def _is_unfolded(character: str) -> bool:
    return unicodedata.normalize("NFKC", character) == character


def _target(character: str, plain: str, table: dict[str, list[dict[str, str]]]) -> str:
    lower = character.lower()
    if plain == "l" and lower != character and any(entry["c"] == "i" for entry in table.get(lower, ())):
        return "i"
    return plain.lower()


if __name__ == "__main__":
    main()
