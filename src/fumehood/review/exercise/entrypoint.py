"""What is started: the program, looked at again after everything that could have replaced it, and its arguments."""

from fumehood.core import jsonio, limits
from fumehood.review import merged
from fumehood.review.acquire import PinnedSource
from fumehood.review.node import npm
from fumehood.review.request import RequestVersion1, ReviewRequest
from fumehood.review.states import ReviewEndedError, State
from fumehood.review.work import Work


def entrypoint(work: Work, source: PinnedSource, asked: str | None) -> str:
    """The program to start, relative to the workspace: a regular file, reached through no link."""
    inside = f"{source.package}/" if source.package else ""
    if asked is None:
        manifest = _manifest(work, f"{inside}package.json")
        asked = npm.only_bin(manifest, source.package.rpartition("/")[2])
    entry = f"{inside}{asked.removeprefix('./')}"
    if ".." in entry.split("/") or entry.startswith("/"):
        raise ReviewEndedError(State.TARGET_FAILED, "entrypoint", "the package's bin leads out of the package")
    if merged.find(work.layers, f"{work.bench.layer_workspace}/{entry}") is None:
        raise ReviewEndedError(State.TARGET_FAILED, "no_entrypoint", "there is no file at the entrypoint")
    return entry


def arguments(request: ReviewRequest, workspace: str) -> tuple[str, ...]:
    """The server's arguments; in version 2 `{workspace}` stands for the workspace, in version 1 for itself."""
    if isinstance(request, RequestVersion1):
        return request.argv
    return tuple(word.replace("{workspace}", workspace) for word in request.argv)


def _manifest(work: Work, path: str) -> object:
    data = merged.read(work.layers, f"{work.bench.layer_workspace}/{path}", limits.MANIFEST_BYTES)
    if data is None:
        raise ReviewEndedError(State.TARGET_FAILED, "no_package_json", "the package has no package.json")
    try:
        return jsonio.parse(data.removeprefix(b"\xef\xbb\xbf"), size=limits.MANIFEST_BYTES)
    except jsonio.JsonError as error:
        raise ReviewEndedError(State.TARGET_FAILED, "bad_manifest", f"package.json: {error.message}") from error
