"""The questions that `fumehood doctor` asks beyond those of every start: each mechanism alone, by doing it.

A route is walked as a whole; when it fails, or a wall is in doubt, these say which part of the host is at fault.
"""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.launch import PROGRAMS
from fumehood.sandbox.probe.query import Answer, ask
from fumehood.sandbox.probe.remedies import explain
from fumehood.sandbox.probe.routes import PROBE_UID

# question → what to do when the answer is no and its text is not known
REMEDIES = {
    "user_namespace": "as root fumehood needs none: run it as root, or allow user namespaces",
    "namespaces": "use a kernel with all of CONFIG_NAMESPACES, or start the container with fewer restrictions",
    "seccomp": "use a kernel with CONFIG_SECCOMP_FILTER; user-mode kernels may lack it",
    "rlimit_data": "memory is then bounded by a cgroup, or by polling",
    "prlimit": "without it the limits of processes, files and time cannot be set on the blocked child",
    "nft": "load the kernel's nf_tables and nft_redir (modprobe nft_redir): without them only listed ports are relayed",
}


def question_argv(question: str, *arguments: str) -> list[str]:
    """The command line that asks one question. Pure."""
    return [sys.executable, "-I", "-S", str(PROGRAMS / "hostprobe.py"), question, *arguments]


def judge(question: str, answer: Answer) -> Probe:
    """What an answer means. Pure."""
    if answer.ok:
        return Probe(name=question, ok=True, detail=answer.stdout.strip() or "works")
    explanation = explain(answer.stderr)
    detail = f"{answer.why}: {explanation.meaning}" if explanation.meaning else answer.why
    return Probe(
        name=question, ok=False, detail=detail, remedy=explanation.remedy if explanation.meaning else REMEDIES[question]
    )


def questions(tools: Mapping[str, Path]) -> list[tuple[str, ...]]:
    """The questions for a host with these programs. Pure."""
    uid = str(PROBE_UID)
    asked: list[tuple[str, ...]] = [
        ("user_namespace", uid),
        ("namespaces",),
        ("seccomp",),
        ("rlimit_data",),
        ("prlimit", uid),
    ]
    return [*asked, ("nft", str(tools["nft"]))] if "nft" in tools else asked


def check_host(tools: Mapping[str, Path], pool: ThreadPoolExecutor) -> tuple[Probe, ...]:
    """Ask every question, a few at a time."""
    asked = questions(tools)
    answers = pool.map(lambda words: ask(question_argv(*words)), asked)
    return tuple(judge(words[0], answer) for words, answer in zip(asked, answers, strict=True))
