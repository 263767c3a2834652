"""What the operator's surroundings say about registries and certificates. Reads; decides nothing about a target."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fumehood.core.errors import HarnessError
from fumehood.core.settings import Settings
from fumehood.review import lacking
from fumehood.review.plan import Remote
from fumehood.sandbox import launch
from fumehood.sandbox.hostfacts import HostFacts

_CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")  # as Node and OpenSSL read them


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where targets come from."""

    registry: Remote
    forge: Remote
    ca_file: Path | None


def sources(settings: Settings, host: HostFacts, environ: Mapping[str, str]) -> Sources:
    """The operator's registry, forge and certificates: settings first, then what npm and the environment say."""
    return Sources(
        registry=Remote.parse(settings.review.npm_registry or _npm_registry(host, environ)),
        forge=Remote.parse(settings.review.forge),
        ca_file=_ca_file(settings, environ),
    )


def _npm_registry(host: HostFacts, environ: Mapping[str, str]) -> str:
    """The registry that the operator's own npm would use, asked outside of any workspace."""
    node = lacking.demand(host, "node")
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    kept = {key: value for key, value in environ.items() if key == "HOME" or key.lower().startswith("npm_config_")}
    asked = launch.run_tool([str(node), str(npm), "config", "get", "registry"], environment=kept, timeout_seconds=20)
    url = asked.stdout.decode("utf-8", "replace").strip()
    if asked.status != 0 or not url.startswith(("http://", "https://")):
        raise HarnessError("npm does not say which registry it uses", remedy="set review.npm_registry")
    return url


def _ca_file(settings: Settings, environ: Mapping[str, str]) -> Path | None:
    if settings.review.ca_file:
        return Path(settings.review.ca_file)
    for name in _CA_VARIABLES:
        path = environ.get(name, "")
        if path.startswith("/") and os.path.isfile(path):  # noqa: PTH113 - a plain question about a plain string
            return Path(path)
    return None
