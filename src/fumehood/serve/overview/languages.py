"""What a file is, by its name alone: its language, whether it is a test, whether a program begins in it. Pure.

A name is a hint and no more: `.h` counts as C, and a file without a known ending belongs to no language.
"""

import re

_ENDINGS = {
    "Ada": "adb ads",
    "Assembly": "asm s",
    "C": "c h",
    "C#": "cs",
    "C++": "cc cpp cxx hh hpp hxx",
    "CSS": "css less sass scss",
    "Clojure": "clj cljc cljs",
    "D": "d",
    "Dart": "dart",
    "Elixir": "ex exs",
    "Erlang": "erl hrl",
    "F#": "fs fsi",
    "Fortran": "f f90 f95",
    "Go": "go",
    "GraphQL": "graphql gql",
    "HTML": "htm html",
    "Haskell": "hs",
    "Java": "java",
    "JavaScript": "cjs js jsx mjs",
    "Julia": "jl",
    "Jupyter": "ipynb",
    "JSON": "json jsonc json5",
    "Kotlin": "kt kts",
    "Lisp": "el lisp",
    "Lua": "lua",
    "Markdown": "markdown md",
    "Nim": "nim",
    "Nix": "nix",
    "OCaml": "ml mli",
    "Objective-C": "m mm",
    "PHP": "php",
    "Pascal": "pas",
    "Perl": "pl pm",
    "PowerShell": "ps1 psm1",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyw",
    "R": "r",
    "Ruby": "rb",
    "Rust": "rs",
    "SQL": "sql",
    "Scala": "sbt scala",
    "Shell": "bash fish sh zsh",
    "Solidity": "sol",
    "Svelte": "svelte",
    "Swift": "swift",
    "TOML": "toml",
    "Tcl": "tcl",
    "Terraform": "hcl tf",
    "Text": "rst txt",
    "TypeScript": "cts mts ts tsx",
    "Verilog": "sv v",
    "Vue": "vue",
    "XML": "xml xsd xsl",
    "YAML": "yaml yml",
    "Zig": "zig",
}
_BY_ENDING = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}
_BY_NAME = {
    "cmakelists.txt": "CMake",
    "dockerfile": "Dockerfile",
    "containerfile": "Dockerfile",
    "gemfile": "Ruby",
    "rakefile": "Ruby",
    "makefile": "Makefile",
    "gnumakefile": "Makefile",
}
# Each is anchored and has no repetition in another: linear.
_TEST_NAME = re.compile(
    r"test_.*\.py|.*_test\.(?:py|go|rb|cc|cpp)|.*\.(?:test|spec)\.[cm]?[jt]sx?|.*_spec\.rb|.*Tests?\.(?:java|cs|kt)"
)
_TEST_FOLDERS = frozenset({"test", "tests", "spec", "specs", "__tests__", "e2e"})
_PROSE = frozenset({"Markdown", "Text", "JSON", "YAML", "TOML", "XML", "HTML", "CSS"})
_STEMS = ("__main__.py", "main.py", "manage.py", "app.py", "wsgi.py", "asgi.py", "main.rb", "config.ru", "Program.cs")
_MORE_STEMS = ("main.go", "main.rs", "main.c", "main.cc", "main.cpp", "Main.java", "main.kt", "Main.kt", "main.swift")
_SCRIPTS = tuple(f"{stem}.{ending}" for stem in ("index", "main", "server") for ending in ("js", "mjs", "ts"))
_ENTRIES = frozenset((*_STEMS, *_MORE_STEMS, *_SCRIPTS))


def language(name: str) -> str | None:
    """The language of a file of this name, None for none that is known."""
    lower = name.lower()
    if lower in _BY_NAME:
        return _BY_NAME[lower]
    stem, dot, ending = lower.rpartition(".")
    if stem in ("dockerfile", "containerfile"):
        return "Dockerfile"
    return _BY_ENDING.get(ending) if dot and stem else None


def is_test(folders: tuple[str, ...], name: str) -> bool:
    """Whether a file is source text of a test: by its own name, or in a folder of tests."""
    if _TEST_NAME.fullmatch(name):
        return True
    known = language(name)
    return known is not None and known not in _PROSE and not _TEST_FOLDERS.isdisjoint(map(str.lower, folders))


def test_folder(folders: tuple[str, ...]) -> str | None:
    """The folder of tests in which a file lies, the outermost one."""
    for depth, folder in enumerate(folders, start=1):
        if folder.lower() in _TEST_FOLDERS:
            return "/".join(folders[:depth])
    return None


def is_entry(name: str) -> bool:
    """Whether a program usually begins in a file of this name."""
    return name in _ENTRIES
