"""URIs of resources and names of prompts, kept apart by server. Pure.

A resource of a server is `fumehood:SERVER:URI`, its own URI as it was, so that two servers may have the same one and a
client's parser leaves it alone (an opaque path, RFC 3986 3.3); a prompt is `SERVER__NAME`. With plain names, which have
room for one server, both stay as they are.

Invariants: what is made outward leads back to exactly the same server and the same words; what was not made here leads
nowhere. Links in results are made outward as well, so that a client can read them.
"""

from typing import Final

from fumehood.core.jsonio import JsonObject, JsonValue
from fumehood.gateway.gate import catalogue
from fumehood.gateway.topology.model import Topology

_SCHEME: Final = "fumehood:"
_LINKS: Final = frozenset({"resource_link", "resource"})


class Places:
    """The way out and back, for one topology."""

    def __init__(self, topology: Topology) -> None:
        """With plain names, only the one enabled server has prompts and resources."""
        self._plain = topology.gateway.names == "plain"
        enabled = [name for name, server in topology.servers.items() if server.enabled]
        self._only = enabled[0] if len(enabled) == 1 else ""

    @property
    def is_crowded(self) -> bool:
        """Whether names are plain and there is more than one server, so that nobody could tell whose they are."""
        return self._plain and not self._only

    def uri(self, server: str, own: str) -> str:
        """A URI, or a template of some, as a client sees it."""
        return own if self._plain else f"{_SCHEME}{server}:{own}"

    def own_uri(self, uri: str) -> tuple[str, str]:
        """The server and its own URI; no server for what leads nowhere."""
        if self._plain:
            return self._only, uri
        server, _, own = uri.removeprefix(_SCHEME).partition(":")
        return (server, own) if uri.startswith(_SCHEME) and own else ("", "")

    def prompt(self, server: str, own: str) -> str:
        """A prompt's name as a client sees it."""
        return catalogue.shown_name(server, own, plain=self._plain)

    def own_prompt(self, name: str) -> tuple[str, str]:
        """The server and its own name; no server for what leads nowhere."""
        return (self._only, name) if self._plain else catalogue.own_name(name)

    def linked(self, server: str, result: JsonObject) -> JsonObject:
        """A controlled result whose links lead to this server through us."""
        if self._plain:
            return result
        made = dict(result)
        for key, value in result.items():
            if key == "content":
                made[key] = self._blocks(server, value)
            elif key == "contents" and isinstance(value, list):
                made[key] = [self._placed(server, one) for one in value]
            elif key == "messages" and isinstance(value, list):
                made[key] = [self.linked(server, one) if isinstance(one, dict) else one for one in value]
        return made

    def _blocks(self, server: str, value: JsonValue) -> JsonValue:
        """The content of a result, or of a message, which may be a single block."""
        if isinstance(value, list):
            return [self._block(server, one) for one in value]
        return self._block(server, value)

    def _block(self, server: str, block: JsonValue) -> JsonValue:
        if not isinstance(block, dict) or block.get("type") not in _LINKS:
            return block
        made = self._placed(server, block)
        return {**made, "resource": self._placed(server, made["resource"])} if "resource" in made else made

    def _placed(self, server: str, value: JsonValue) -> JsonObject:
        if not isinstance(value, dict):
            return {}
        own = value.get("uri")
        return {**value, "uri": self.uri(server, own)} if isinstance(own, str) else value
