import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.probe.remedies import explain

TEXTS = {
    "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)": (
        "limit",
        "user.max_user_namespaces",
    ),
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces.": ("forbidden", "seccomp=unconfined"),
    "bwrap: No permissions to creating new namespace, likely because the kernel does not allow it": (
        "forbidden",
        "unprivileged_userns_clone",
    ),
    "bwrap: Creating new namespace failed: Operation not permitted": ("forbidden", "container"),
    "bwrap: Can't set hostname to probe: Operation not permitted": ("forbidden", "code-runner/seccomp.json"),
    "unshare: No space left on device": ("limit", "user.max_user_namespaces"),
    "unshare: Operation not permitted": ("forbidden", "seccomp=unconfined"),
    "bwrap: setting up uid map: Permission denied": ("AppArmor", "apparmor_restrict_unprivileged_userns"),
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted": ("masks", "systempaths=unconfined"),
    "bwrap: Unknown option --overlay-src": ("too old", "fumehood[review]"),
    "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted": ("network namespace", "AppArmor"),
    "bwrap: Failed to make / slave: Permission denied": ("Landlock", "outside"),
    "bwrap: Can't make overlay mount on /newroot/var with options x: Invalid argument": ("overlay", "run_root"),
    "setpriv: failed to execute /home/x/bwrap: Permission denied": ("closed to others", "chmod o+x"),
    "bwrap: Can't find source path /home/x/node: Permission denied": ("closed to others", "chmod o+x"),
    "bwrap: error while loading shared libraries: libcap.so.2: cannot open shared object file: No such file": (
        "closed to others",
        "chmod o+x",
    ),
    "bwrap: prctl(PR_SET_SECCOMP): Invalid argument": ("seccomp", "CONFIG_SECCOMP_FILTER"),
    "strace: do_test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted": ("tracing", "SYS_PTRACE"),
    "bwrap: Can't fork for pid 1: Resource temporarily unavailable": ("too many processes", "ulimit"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_known_error_text_has_its_meaning_and_its_remedy(text: str) -> None:
    meaning, remedy = TEXTS[text]
    found = explain(text)
    assert meaning in found.meaning
    assert remedy in found.remedy


def test_an_unknown_text_is_not_given_a_meaning() -> None:
    assert explain("bwrap: the moon is full").meaning == ""
    assert "report" in explain("").remedy


@given(st.text())
def test_every_text_has_a_remedy(text: str) -> None:
    assert explain(text).remedy
