import subprocess
import sys

import pytest

from fumehood.wire import lean

LOADED = "print(sorted(name for name in sys.modules if name.startswith(('mcp.client', 'mcp.server.mcpserver'))))\n"


def output(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=120, text=True)
    return done.stdout.splitlines()


def test_the_server_is_loaded_without_clients_and_they_come_when_they_are_wanted() -> None:
    program = (
        "import sys\n"
        "from fumehood.wire.sdk import tools\n"
        f"{LOADED}"
        "from mcp import ClientSession, types\n"
        "import mcp\n"
        "print(ClientSession.__name__, mcp.server.MCPServer.__name__, mcp.server.lowlevel.Server is tools.Server)\n"
    )
    assert output(program) == ["[]", "ClientSession MCPServer True"]


def test_without_it_the_clients_are_loaded() -> None:
    assert output(f"import sys\nfrom mcp.server.lowlevel import Server\n{LOADED}") != ["[]"]


@pytest.mark.parametrize("name", ["sys", "no_such_package"])
def test_what_is_loaded_or_missing_is_left_alone(name: str) -> None:
    before = sys.modules.get(name)
    lean.postpone(name)
    assert sys.modules.get(name) is before


def test_a_module_fills_itself_when_it_is_asked_for_a_name_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    lean.postpone("colorsys")
    module = sys.modules["colorsys"]
    assert not hasattr(module, "__wrapped__")
    assert "hls_to_rgb" not in vars(module)
    assert module.hls_to_rgb(0, 0, 0) == (0, 0, 0)
    assert not hasattr(module, "no_such_name")
    assert "__getattr__" not in vars(module)
