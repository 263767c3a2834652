"""A backend in small, of the `websockets` library: it sends programs to the runner of this container, one socket each.

Read from stdin: JSON, `{"url", "token", "at_once", "jobs": [...]}`. Printed: JSON, for each job the last message of the
runner, `calls` that were answered (with what they were given), and `seconds`.
"""

import asyncio
import json
import sys
import time
from typing import Any

from websockets.asyncio.client import connect

_SECONDS = 120.0


async def run(url: str, token: str, job: dict[str, Any]) -> dict[str, Any]:
    """One run to its last message."""
    began, calls = time.monotonic(), []
    async with connect(f"{url}/run", compression=None, proxy=None, max_size=2**23) as socket:
        await socket.send(json.dumps({"type": "job", "token": token, "job": job}))
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), _SECONDS))
            if message["type"] == "call":
                calls.append([message["method"], message["args"]])
                value = {"text": json.dumps(message["args"]), "structured": None}
                await socket.send(json.dumps({"type": "callResult", "id": message["id"], "ok": True, "value": value}))
            elif message["type"] != "log":
                return {"last": message, "calls": calls, "seconds": time.monotonic() - began}


async def every(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """All of them, a few at once."""
    turn = asyncio.Semaphore(asked["at_once"])

    async def one(job: dict[str, Any]) -> dict[str, Any]:
        async with turn:
            return await run(asked["url"], asked["token"], job)

    return await asyncio.gather(*(one(job) for job in asked["jobs"]))


if __name__ == "__main__":
    json.dump(asyncio.run(every(json.load(sys.stdin))), sys.stdout)
