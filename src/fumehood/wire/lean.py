"""Import the SDK's server without its clients: `wire.sdk` imports this module first.

The packages `mcp` and `mcp.server` import everything that they offer: clients, a second server, an HTTP client. What is
needed here is below them. So both stand empty at first, and fill themselves when somebody asks one of them for a name,
as if they had been imported then. Measured: 0.2 of 0.85 s of processor time at the start, 125 modules, 11 MB.
"""

import importlib.util
import sys
from types import ModuleType

_PACKAGES = ("mcp", "mcp.server")


def postpone(name: str) -> None:
    """Have a package run its own code when it is asked for a name, and not before; nothing where it is loaded."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return  # whoever imports it says that it is missing
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader

    def fill(attribute: str) -> object:
        if attribute.startswith("__"):  # a look at what kind of module this is
            raise AttributeError(attribute)
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, attribute)

    vars(module)["__getattr__"] = fill
    _place(name, module)


def _place(name: str, module: ModuleType) -> None:
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


for _name in _PACKAGES:
    postpone(_name)
