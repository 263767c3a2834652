"""As many descriptors as a supervisor needs, where the hard limit lets it have them.

Invariant: a limit is raised and never lowered, and no further than asked for. What it starts inherits that; each target
gets a limit of its own (`rlimits`).

Source: getrlimit(2).
"""

import resource


def allow(count: int) -> int:
    """Let this process open so many, if it may; how many it may open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return count if now == resource.RLIM_INFINITY else now
