"""What a guest has read decides what it may do without being asked. Pure.

Whoever got words of a server that is not trusted may have been told by them what to do. From then on whatever changes
or sends something needs a person's word, for as long as the guest lasts.

Invariants: nothing here takes a taint away; every word of a server's answer counts, errors and progress included.
Lists do not taint: definitions of tools are pinned, and of what is not pinned (prompts, resources) only names of a
server that is not trusted are shown (`gateway.gate.unpinned`).

Not promised: that a model which was not told anything does no harm; what a trusted server passes on from elsewhere.
"""

from fumehood.gateway.gate.model import Guest, Offered


def taints(guest: Guest, offered: Offered) -> None:
    """Note that a guest is about to get words of a server."""
    if not offered.trusted:
        guest.tainted_by.add(offered.server)


def needs_approval(guest: Guest, offered: Offered) -> bool:
    """Whether a person has to be asked before a call."""
    return bool(guest.tainted_by) and (offered.writes or offered.egress)
