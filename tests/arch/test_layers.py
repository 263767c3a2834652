import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_package_init_files_stay_empty() -> None:
    full = [p for p in (ROOT / "src").rglob("__init__.py") if p.read_bytes()]
    assert full == []


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'asyncio','pydantic','mcp','msgspec','jsonschema_rs'}"
    program = (
        "import sys; sys.argv=['fumehood','--help']\n"
        "from fumehood.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stderr.strip() == b"[]"
    assert b"Usage" in done.stdout
