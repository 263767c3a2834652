"""What a manifest declares: name, version, dependencies, commands. Pure.

Invariants: a manifest is read, never run; every parser is bounded by the size of its input and takes linear time;
XML with a document type is refused, so no entity is ever expanded; what is not of the grammar is a `ManifestError`,
and nothing of it is guessed. Words are foreign content: one line each, clipped, and only so many.

Not promised: that a build tool would take the same from it; a Makefile, a CMake file and a Gemfile are programs, of
which only plain lines are seen.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from xml.parsers import expat

from fumehood.core import jsonio, limits

Declared: TypeAlias = dict[str, list[str]]  # in the words of this module: name, version, depends on, commands …

_COMMENT = re.compile(r"(?:^|\s)#.*")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_GEM = re.compile(r"^[ \t]*gem[ \t(]+[\"']([^\"'\n]{1,100})[\"']", re.MULTILINE)
_RUBY = re.compile(r"^[ \t]*ruby[ \t(]+[\"']([^\"'\n]{1,100})[\"']", re.MULTILINE)
_TARGET = re.compile(r"^([A-Za-z0-9][A-Za-z0-9_./-]{0,100})[ \t]*:(?![:=])", re.MULTILINE)
_CMAKE = re.compile(
    r"^[ \t]*(project|add_executable|add_library)[ \t]*\([ \t\n]*([A-Za-z0-9_.:+-]{1,100})",
    re.MULTILINE | re.IGNORECASE,
)
_DOCKER = re.compile(r"^[ \t]*(FROM|ENTRYPOINT|CMD|EXPOSE)[ \t]+([^\n]{1,300})", re.MULTILINE | re.IGNORECASE)
_GO = re.compile(r"^[ \t]*(module|go|toolchain)[ \t]+(\S{1,300})", re.MULTILINE)
_GO_REQUIRE = re.compile(
    r"^(?:require)?[ \t]+([A-Za-z0-9.-]{1,100}/\S{1,200}|[A-Za-z0-9-]{1,60}\.[A-Za-z0-9.]{1,60})[ \t]+v", re.MULTILINE
)
_XML_DEPTH = 64  # of elements in each other; a POM is 8 deep


class ManifestError(ValueError):
    """A manifest is not of its grammar; the message holds nothing of it."""


def kind(name: str) -> str | None:
    """What a file of this name is as a manifest, None for none that is read."""
    if name in _PARSERS:
        return name
    lower = name.lower()
    if lower in ("dockerfile", "containerfile") or lower.startswith("dockerfile."):
        return "Dockerfile"
    if lower in ("makefile", "gnumakefile"):
        return "Makefile"
    return "requirements.txt" if lower.startswith("requirements") and lower.endswith(".txt") else None


def declared(manifest: str, text: bytes) -> Declared:
    """What a manifest of a kind declares, empty members left out. `text` is UTF-8."""
    try:
        found = _PARSERS[manifest](text)
    except (ValueError, RecursionError, jsonio.JsonError, expat.ExpatError) as e:
        raise ManifestError("not of its grammar") from e
    return {word: bounded for word, values in found.items() if (bounded := _bounded(values))}


def _bounded(values: Iterable[str]) -> list[str]:
    """Words on one line each; the last one says how many more there are."""
    words = [" ".join(value.split())[: limits.OVERVIEW_WORD_CHARACTERS] for value in values]
    words = list(dict.fromkeys(word for word in words if word))
    more = len(words) - limits.OVERVIEW_WORDS
    return words if more <= 0 else [*words[: limits.OVERVIEW_WORDS], f"and {more} more"]


def _pyproject(text: bytes) -> Declared:
    data = tomllib.loads(text.decode("utf-8"))
    project, poetry = _table(data, "project"), _table(data, "tool", "poetry")
    return {
        "name": _strings(project.get("name")) or _strings(poetry.get("name")),
        "version": _strings(project.get("version")) or _strings(poetry.get("version")),
        "needs": _strings(project.get("requires-python")),
        "built by": _strings(_table(data, "build-system").get("build-backend")),
        "commands": [*_pairs(_table(project, "scripts")), *_pairs(_table(poetry, "scripts"))],
        "depends on": [*_requirements(project.get("dependencies")), *_table(poetry, "dependencies")],
        "extras": list(_table(project, "optional-dependencies")),
        "groups": list(_table(data, "dependency-groups")),
        "configures": list(_table(data, "tool")),
    }


def _requirements_file(text: bytes) -> Declared:
    lines = (_COMMENT.sub("", line).strip() for line in text.decode("utf-8").splitlines())
    return {"depends on": _requirements([line for line in lines if line and not line.startswith("-")])}


def _package_json(text: bytes) -> Declared:
    data = jsonio.parse(text, size=limits.OVERVIEW_MANIFEST_BYTES, locate=False)
    if not isinstance(data, dict):
        raise ManifestError("no object")
    commands = data.get("bin")
    workspaces = data.get("workspaces")
    return {
        "name": _strings(data.get("name")),
        "version": _strings(data.get("version")),
        "needs": _pairs(_table(data, "engines")),
        "begins at": [*_strings(data.get("main")), *_strings(data.get("module"))],
        "commands": _strings(commands) or _pairs(_table(data, "bin")),
        "scripts": list(_table(data, "scripts")),
        "depends on": [*_table(data, "dependencies"), *_table(data, "require")],
        "develops with": [*_table(data, "devDependencies"), *_table(data, "require-dev")],
        "workspaces": _strings(workspaces) or _strings(_table(data, "workspaces").get("packages")),
    }


def _cargo(text: bytes) -> Declared:
    data = tomllib.loads(text.decode("utf-8"))
    package = _table(data, "package")
    binaries = data.get("bin")
    return {
        "name": _strings(package.get("name")),
        "version": _strings(package.get("version")),
        "needs": [f"edition {edition}" for edition in _strings(package.get("edition"))],
        "commands": [
            name
            for one in (binaries if isinstance(binaries, list) else [])
            for name in _strings(_table({"bin": one}, "bin").get("name"))
        ],
        "depends on": list(_table(data, "dependencies")),
        "develops with": list(_table(data, "dev-dependencies")),
        "workspaces": _strings(_table(data, "workspace").get("members")),
    }


def _go_mod(text: bytes) -> Declared:
    words = text.decode("utf-8")
    found = {match[1]: match[2] for match in _GO.finditer(words)}
    return {
        "name": _strings(found.get("module")),
        "needs": [f"{word} {found[word]}" for word in ("go", "toolchain") if word in found],
        "depends on": [match[1] for match in _GO_REQUIRE.finditer(words)],
    }


def _pom(text: bytes) -> Declared:
    """Only elements at their own place count: a parent's version is not the project's."""
    wanted = {
        "project/groupId": "group",
        "project/artifactId": "name",
        "project/version": "version",
        "project/packaging": "packaging",
        "project/modules/module": "workspaces",
        "project/dependencies/dependency/artifactId": "depends on",
    }
    found: Declared = {}
    path: list[str] = []
    parser = expat.ParserCreate()

    def start(name: str, _: object) -> None:
        path.append(name)
        if len(path) > _XML_DEPTH:
            raise ManifestError("too deep")
        if (word := wanted.get("/".join(path))) is not None:
            found.setdefault(word, []).append("")

    def data(characters: str) -> None:
        word = wanted.get("/".join(path))
        if word is not None and len(found[word][-1]) < limits.OVERVIEW_WORD_CHARACTERS:
            found[word][-1] += characters

    def refuse(*_: object) -> None:
        raise ManifestError("a document type")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: path.pop()
    parser.CharacterDataHandler = data
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.Parse(text, True)  # noqa: FBT003 - its only signature
    return found


def _gemfile(text: bytes) -> Declared:
    words = text.decode("utf-8")
    return {
        "needs": [f"ruby {match[1]}" for match in _RUBY.finditer(words)],
        "depends on": [match[1] for match in _GEM.finditer(words)],
    }


def _makefile(text: bytes) -> Declared:
    return {"targets": [match[1] for match in _TARGET.finditer(text.decode("utf-8"))]}


def _cmake(text: bytes) -> Declared:
    found: Declared = {"project": [], "add_executable": [], "add_library": []}
    for match in _CMAKE.finditer(text.decode("utf-8")):
        found[match[1].lower()].append(match[2])
    return {"name": found["project"], "commands": found["add_executable"], "libraries": found["add_library"]}


def _dockerfile(text: bytes) -> Declared:
    found: Declared = {"FROM": [], "ENTRYPOINT": [], "CMD": [], "EXPOSE": []}
    for match in _DOCKER.finditer(text.decode("utf-8")):
        found[match[1].upper()].append(match[2])
    return {"built on": found["FROM"], "runs": [*found["ENTRYPOINT"], *found["CMD"]], "listens on": found["EXPOSE"]}


def _table(data: object, *names: str) -> Mapping[str, object]:
    """The table at a path of keys; an empty one where there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _strings(value: object) -> list[str]:
    """A word or a list of words, as a list; what is neither is left out."""
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


def _pairs(table: Mapping[str, object]) -> list[str]:
    return [f"{name} = {value}" if isinstance(value, str) else name for name, value in table.items()]


def _requirements(value: object) -> list[str]:
    """The names in requirements of PEP 508."""
    return [match[1] for one in _strings(value) if (match := _REQUIREMENT.match(one))]


_PARSERS: dict[str, Callable[[bytes], Declared]] = {
    "CMakeLists.txt": _cmake,
    "Cargo.toml": _cargo,
    "Dockerfile": _dockerfile,
    "Gemfile": _gemfile,
    "Makefile": _makefile,
    "composer.json": _package_json,
    "go.mod": _go_mod,
    "package.json": _package_json,
    "pom.xml": _pom,
    "pyproject.toml": _pyproject,
    "requirements.txt": _requirements_file,
}
