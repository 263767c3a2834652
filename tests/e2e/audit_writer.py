"""Write an audit log until killed, telling each record that was kept; started by test_audit_killed.py.

python audit_writer.py FILE ROUNDS SEED: in each round a child writes, and is killed after a random number of
records; then the log is checked. One JSON document per round goes to stdout.
"""

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path

from audited import call
from fumehood.core.clock import SystemClock
from fumehood.gateway.audit import files, writer
from fumehood.gateway.audit.chain import Verified, verify
from fumehood.gateway.audit.writer import Wiring

FILE_BYTES = 8000  # some twelve lines, so that kills meet the change of files as well


async def write(path: Path, told: int) -> None:
    """Record for ever, several at once."""
    async with writer.opened(path, SystemClock(), Wiring(file_bytes=FILE_BYTES)) as log:

        async def one(number: int) -> None:
            for count in range(1, 1 << 30):
                await log.record(call(call=count, writes=number % 2 == 0))
                os.write(told, b"x")
                await asyncio.sleep(0)

        await asyncio.gather(*(one(number) for number in range(4)))


def kill_one(path: Path, chance: random.Random) -> int:
    """Let a child write and kill it; how many records it was told are kept."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(write(path, writing))
        finally:
            os._exit(1)
    os.close(writing)
    wanted, kept = chance.randrange(60), 0
    while kept < wanted and (told := os.read(reading, wanted - kept)):
        kept += len(told)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while told := os.read(reading, 4096):
        kept += len(told)
    os.close(reading)
    return kept


def main(path: Path, rounds: int, seed: int) -> None:
    """Kill, check, go on."""
    chance = random.Random(seed)
    for _ in range(rounds):
        kept = kill_one(path, chance)
        try:
            found = verify(line for _, lines in files.lines(path) for line in lines)
        except FileNotFoundError:
            found = Verified(lines=0, first=None, last=None, recovered=0, torn_bytes=0, kept=False)
        if chance.random() < 0.5:  # a machine that goes down tears a line; a killed process hardly ever
            tear(path, chance)
        told = {"kept": kept, "lines": found.lines if isinstance(found, Verified) else repr(found)}
        sys.stdout.write(json.dumps(told) + "\n")


def tear(path: Path, chance: random.Random) -> None:
    """Leave the beginning of a line at the end, as a write that the disk got in part."""
    if path.exists() and (data := path.read_bytes()).endswith(b"\n"):
        last = data[data[:-1].rfind(b"\n") + 1 :]
        with path.open("ab") as file:
            file.write(last[: chance.randrange(len(last) - 1)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
