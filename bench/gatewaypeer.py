"""FastMCP's proxy with its defaults before one server on stdio: the peer of `bench/gateway.py`.

python gatewaypeer.py stdio|PORT WORD…: the command of the server is the rest of the words. FastMCP is looked up by
name, for it is in a folder of the benchmark's own and no dependency of fumehood.
"""

import importlib
import os
import sys


def main(where: str, command: list[str]) -> None:
    """Serve until the client is gone, or killed."""
    create = importlib.import_module("fastmcp.server").create_proxy
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")}
    config = {"mcpServers": {"one": {"command": command[0], "args": command[1:], "env": kept}}}
    proxy = create(config, name="peer")
    if where == "stdio":
        proxy.run(show_banner=False, log_level="ERROR")
    else:
        proxy.run(transport="http", host="127.0.0.1", port=int(where), show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
