"""What an error of bubblewrap, setpriv, strace or nft on this host means, and what to do about it. Pure.

Sources: bubblewrap.c and its message texts, user_namespaces(7), the AppArmor restriction of Ubuntu 23.10 and later,
the masked paths of container engines, and what was seen on hosts of each kind.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What it means, and the next step."""

    meaning: str
    remedy: str


_LIMIT = Explanation(
    meaning="this host allows no (more) namespaces: a limit below /proc/sys/user is 0 or used up",
    remedy="as root: sysctl -w user.max_user_namespaces=15000 user.max_mnt_namespaces=15000 "
    "user.max_pid_namespaces=15000 user.max_net_namespaces=15000; or run fumehood as root",
)
_CONTAINER = Explanation(
    meaning="creating namespaces is forbidden here, by a container's seccomp profile or by the kernel's settings",
    remedy="on Debian: sysctl -w kernel.unprivileged_userns_clone=1; in a container: start it with "
    "--security-opt seccomp=unconfined, for programs alone with the narrower deploy/code-runner/seccomp.json, or run "
    "fumehood outside of it",
)
_APPARMOR = Explanation(
    meaning="AppArmor lets this program make a user namespace and then do nothing in it (Ubuntu 23.10 and later)",
    remedy="as root: load an AppArmor profile with `userns,` for this bwrap, or sysctl -w "
    "kernel.apparmor_restrict_unprivileged_userns=0; or run fumehood as root, which needs no user namespace",
)
_MASKED = Explanation(
    meaning="a new /proc may not be mounted: a container engine masks parts of the one above",
    remedy="start the container with --security-opt systempaths=unconfined (Docker) or --security-opt unmask=ALL "
    "(Podman), or run fumehood outside of it",
)
_OPTION = Explanation(
    meaning="this bwrap is too old: it lacks an option that is needed",
    remedy="pip install 'fumehood[review]', which brings bubblewrap 0.11, or name another with sandbox.bwrap",
)
_UNREACHABLE = Explanation(
    meaning="the user without privilege cannot reach this file: a folder above it is closed to others",
    remedy="install fumehood where everybody may enter (not below a home of mode 0700), or open the folders with "
    "chmod o+x",
)
_OVERLAY = Explanation(
    meaning="the kernel mounts no overlay here",
    remedy="set sandbox.run_root to a folder on ext4, xfs, btrfs or tmpfs; an ordinary user needs Linux 5.11",
)
_LOOPBACK = Explanation(
    meaning="the new network namespace may not be set up",
    remedy="the host's policy (AppArmor, or a container without CAP_NET_ADMIN in its namespaces) must allow it; "
    "or run fumehood as root",
)
_LOOSE = Explanation(
    meaning="this process may not mount: it is under Landlock's file rules, or lacks CAP_SYS_ADMIN as root",
    remedy="start fumehood outside of that confinement",
)
_SECCOMP = Explanation(
    meaning="the kernel takes no seccomp program",
    remedy="use a kernel with CONFIG_SECCOMP_FILTER",
)
_BUSY = Explanation(
    meaning="the user has too many processes",
    remedy="raise the limit of processes (ulimit -u), or end some",
)
_ATTACH = Explanation(
    meaning="tracing is forbidden here",
    remedy="set kernel.yama.ptrace_scope to 0 or 1; in a container add --cap-add SYS_PTRACE",
)

# every fragment of a row must occur; the first row that fits counts
_TEXTS: tuple[tuple[tuple[str, ...], Explanation], ...] = (
    (("Creating new namespace failed", "ENOSPC"), _LIMIT),
    (("Creating new namespace failed", "No space left on device"), _LIMIT),
    (("unshare", "No space left on device"), _LIMIT),
    (("unshare", "not permitted"), _CONTAINER),
    (("Creating new namespace failed", "not permitted"), _CONTAINER),
    (("Creating new namespace failed", "Resource temporarily unavailable"), _BUSY),
    (("No permissions to creat", "new namespace"), _CONTAINER),
    (("Can't set hostname", "not permitted"), _CONTAINER),  # Podman's profile refuses this one alone
    (("setting up uid map", "Permission denied"), _APPARMOR),
    (("etting up uid map", "not permitted"), _APPARMOR),
    (("Can't mount proc", "not permitted"), _MASKED),
    (("Can't mount proc", "Permission denied"), _MASKED),
    (("Unknown option",), _OPTION),
    (("loopback: Failed",), _LOOPBACK),
    (("Failed to make / slave",), _LOOSE),
    (("Can't make overlay mount",), _OVERLAY),
    (("failed to execute", "Permission denied"), _UNREACHABLE),
    (("Can't find source path", "Permission denied"), _UNREACHABLE),
    (("execvp", "Permission denied"), _UNREACHABLE),
    (("error while loading shared libraries",), _UNREACHABLE),
    (("PR_SET_SECCOMP",), _SECCOMP),
    (("PTRACE_", "not permitted"), _ATTACH),
    (("Resource temporarily unavailable",), _BUSY),
)
_UNKNOWN = Explanation(meaning="", remedy="please report this text together with `fumehood doctor --json`")


def explain(text: str) -> Explanation:
    """What `text` means; a text that is not known has no meaning and asks for a report."""
    for fragments, explanation in _TEXTS:
        if all(fragment in text for fragment in fragments):
            return explanation
    return _UNKNOWN
