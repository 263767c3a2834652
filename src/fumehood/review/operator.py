"""What the operator's surroundings say about registries and certificates. Reads; decides nothing about a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.sections import Settings
from fumehood.review import lacking
from fumehood.review.plan import Remote
from fumehood.review.python import sources as python
from fumehood.sandbox import launch
from fumehood.sandbox.egress import Rule
from fumehood.sandbox.hostfacts import HostFacts

_CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")  # as Node and OpenSSL read them


class CertificatesError(RefusedError):
    """The certificates that the settings name are not there."""

    code = "settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where targets come from."""

    registry: Remote | None
    forge: Remote
    ca_file: Path | None
    index: Remote | None = None
    index_files: tuple[Rule, ...] = ()


def sources(settings: Settings, host: HostFacts, environ: Mapping[str, str], kind: str = "npm") -> Sources:
    """The operator's registry, forge and certificates: settings first, then what npm and the environment say.

    For a target of `kind` pypi the Python index stands for the registry: then what uv, pip and the environment say.
    """
    if kind == "pypi":
        return Sources(
            registry=None,
            forge=Remote.parse(settings.review.forge),
            ca_file=_ca_file(settings, environ, ""),
            index=python.index(settings, host, environ),
            index_files=tuple(Remote.parse(url).rule for url in settings.review.index_files),
        )
    npm = {} if settings.review.npm_registry else _npm_says(host, environ)
    return Sources(
        registry=Remote.parse(settings.review.npm_registry or npm["registry"]),
        forge=Remote.parse(settings.review.forge),
        ca_file=_ca_file(settings, environ, npm.get("cafile", "")),
    )


def _npm_says(host: HostFacts, environ: Mapping[str, str]) -> dict[str, str]:
    """The registry and the certificates that the operator's own npm would use, asked outside of any workspace."""
    node = lacking.demand(host, "node")
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    kept = {key: value for key, value in environ.items() if key == "HOME" or key.lower().startswith("npm_config_")}
    argv = [str(node), str(npm), "config", "get", "registry", "cafile", "--logs-max=0", "--no-update-notifier"]
    asked = launch.run_tool(argv, environment=kept, timeout_seconds=20)
    said = dict(line.partition("=")[::2] for line in asked.stdout.decode("utf-8", "replace").splitlines())
    if asked.status != 0 or not said.get("registry", "").startswith(("http://", "https://")):
        raise HarnessError("npm does not say which registry it uses", remedy="set review.npm_registry")
    return said


def _ca_file(settings: Settings, environ: Mapping[str, str], npm_cafile: str) -> Path | None:
    """The file of the settings, which has to be there; else the first of the surroundings that is."""
    if settings.review.ca_file:
        path = Path(settings.review.ca_file)
        if not path.is_file():
            raise CertificatesError(
                f"review.ca_file: {str(path)!a} is no file", remedy="name a PEM file, or leave it out"
            )
        return path
    for name in (npm_cafile, *(environ.get(variable, "") for variable in _CA_VARIABLES)):
        path = Path(name)
        if path.is_absolute() and path.is_file():
            return path
    return None
