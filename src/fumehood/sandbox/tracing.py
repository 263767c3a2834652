"""Which calls strace follows in each mode. Pure: a mode and a path give its words.

Common to all: children are followed; descriptors are shown with the path that the kernel knows (`-y`), because the
string argument may be changed by another thread; pids are those outside (`--decode-pids=pidns`), without which the
process tree of a pid namespace cannot be put together (strace(1), measured with 6.1).

`-ttt` gives each line its moment, in seconds of the wall clock.

Each pid that strace translates costs it a walk through /proc: 46 ms a fork beside 126 processes, where a bare trace
took 2. So neither SIGCHLD is shown, which names a pid each time, nor waits. Other signals are: without them strace
would not say either that a process was killed by one.
"""

from pathlib import Path
from typing import Final

from fumehood.sandbox.spec import TraceMode

_PROCESSES: Final = "execve,execveat,?fork,?vfork,clone,clone3"
# strace stops a new task at every call until its filter stopped it once (measured with 6.1: the threads of V8, which
# make no other of these calls, made a trace of processes and network the dearest of all). C libraries make the first
# as a task begins, Go and Rust the second.
_BEGINNINGS: Final = "set_robust_list,sigaltstack"
_NETWORK: Final = "connect,bind,getsockopt"  # getsockopt(SO_ERROR) is the outcome of a connect that did not block
_FILES: Final = (
    "?open,openat,openat2,?creat,?mkdir,mkdirat,?mknod,mknodat,?unlink,unlinkat,?rmdir,?rename,?renameat,renameat2,"
    "?link,linkat,?symlink,symlinkat,truncate,?chmod,fchmod,fchmodat,?chown,fchown,?lchown,fchownat,"
    "chdir,fchdir"  # without them a relative name could not be told
)
# What the filter refuses, or what a name of a file does not show: an attempt is a fact.
_TELLING: Final = (
    "fchdir,fchmod,fchown,ftruncate,fsetxattr,kill,tkill,tgkill,ptrace,process_vm_readv,process_vm_writev,pidfd_getfd,kcmp,"
    "unshare,setns,io_uring_setup,io_uring_enter,io_uring_register,memfd_create,?memfd_secret,open_by_handle_at,"
    "fsopen,fsconfig,fsmount,fspick,move_mount,open_tree,mount_setattr,?open_tree_attr,bpf,perf_event_open,"
    "userfaultfd,fanotify_init,add_key,request_key,keyctl,init_module,finit_module,delete_module,kexec_load,seccomp"
)

_SETS: Final = {
    TraceMode.NETWORK: ["--seccomp-bpf", "-e", f"trace={_BEGINNINGS},{_PROCESSES},{_NETWORK}"],
    TraceMode.FAST: ["--seccomp-bpf", "-e", f"trace={_BEGINNINGS},{_PROCESSES},{_NETWORK},{_FILES},kill,ptrace"],
    TraceMode.PLAIN: ["-e", f"trace={_PROCESSES},%network,%file,{_TELLING}"],
}


def words(strace: Path | str, mode: TraceMode, output: Path | str) -> list[str]:
    """Strace's words up to and with `--`; `output` is a FIFO that the target cannot see.

    Never `/dev/fd/N`: the target would inherit the write end and could forge lines.
    """
    return [
        str(strace),
        *(
            "-f",
            "-q",
            "-ttt",
            "-y",
            "-a",
            "1",
            "-s",
            "200",
            "--decode-pids=pidns",
            "-e",
            "signal=!SIGCHLD",
            "-o",
            str(output),
        ),
        *_SETS[mode],
        "--",
    ]
