"""A review's work without a host: nothing is started by it."""

import random
from pathlib import Path

import pytest

from fumehood.core.sections import Settings
from fumehood.review import identity, plan
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.stack import Stack
from fumehood.review.work import Work
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Tool
from fumehood.sandbox.runs import Run
from fumehood.sandbox.spec import Route


@pytest.fixture
def work(tmp_path: Path) -> Work:
    host = HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=1000,
        routes=(Route.USER,),
        tools={
            "node": Tool(name="node", path=Path("/usr/bin/node"), version="24.0.0", sha256="0" * 64, origin="system")
        },
        cgroups=CgroupFacts(version=None, roots={}),
        landlock_abi=0,
        run_root=tmp_path,
        probes=(),
    )
    run = Run(tmp_path, uid=1000)
    chance = random.Random(1)
    return Work(
        host=host,
        settings=Settings(),
        run=run,
        bench=plan.Bench(
            identity=identity.identity(run.uid, chance),
            folder=identity.folder(chance),
            node=Path("/usr/bin/node"),
            node_library=Path("/usr/lib/node_modules"),
        ),
        ledger=Ledger(lambda _: True),
        progress=lambda _: None,
        stop_on_output=False,
        stack=Stack(),
    )
