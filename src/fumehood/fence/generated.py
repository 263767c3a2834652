"""Folders that tools write and people do not read: walks and searches skip them, and count them. Pure.

Nothing is hidden by this: who asks for such a folder by its path gets it.
"""

FOLDERS = frozenset(
    {
        ".bundle",
        ".cache",
        ".dart_tool",
        ".eggs",
        ".gradle",
        ".hypothesis",
        ".mypy_cache",
        ".next",
        ".nox",
        ".nuxt",
        ".parcel-cache",
        ".pnpm-store",
        ".pytest_cache",
        ".ruff_cache",
        ".serverless",
        ".svelte-kit",
        ".terraform",
        ".tox",
        ".turbo",
        ".venv",
        ".yarn",
        "__pycache__",
        "__pypackages__",
        "bower_components",
        "build",
        "deriveddata",
        "dist",
        "htmlcov",
        "jspm_packages",
        "node_modules",
        "pods",
        "site-packages",
        "target",
        "vendor",
        "venv",
    }
)
SUFFIXES = (".egg-info", ".dist-info")


def is_generated(name: str) -> bool:
    """Whether a folder of this name, one component, is generated or vendored, in any case."""
    lower = name.lower()
    return lower in FOLDERS or lower.endswith(SUFFIXES)


def search_globs() -> tuple[str, ...]:
    """The same as arguments of ripgrep's `--iglob`, each beginning with `!`; they match folders only."""
    return (f"!**/{{{','.join(sorted(FOLDERS))}}}/", *(f"!**/*{suffix}/" for suffix in SUFFIXES))
