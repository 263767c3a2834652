"""The nft ruleset of a confined child's network namespace, and the ports to listen on without it. Pure.

What the engine wants to see is redirected to one listener. Everything else is rejected, in the input hook: rejecting in
output would keep the packet recorder from seeing the attempt. So a forbidden raw address is refused by the kernel even
if the engine has a bug.
"""

from typing import assert_never

from fumehood.core.addresses import NON_PUBLIC_V4, NON_PUBLIC_V6
from fumehood.sandbox.egress import Mode, Policy, literals
from fumehood.sandbox.names import POOL

CATCH_PORT = 1  # below 1024: no target can take it
DNS_PORT = 53
PLAIN_PORTS = (80, 443)  # listened on in OPEN and SINKHOLE when there is no redirect


def build_ruleset(policy: Policy) -> str:
    """The ruleset for `nft -f -`. Addresses in it are canonical, so no rule of a policy can become text of nft."""
    takes = "\n    ".join(_takes(policy))
    return f"""table inet egress {{
  chain leaving {{
    type nat hook output priority -100; policy accept;
    ip daddr 127.0.0.0/8 return
    ip6 daddr ::1 return
    meta l4proto tcp th dport {DNS_PORT} return
    {takes}
  }}
  chain arriving {{
    type filter hook input priority 0; policy accept;
    ct state established,related accept
    ct status dnat accept
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    meta l4proto {{ tcp, udp }} th dport {DNS_PORT} accept
    meta l4proto tcp reject with tcp reset
    reject
  }}
}}
"""


def catches(policy: Policy) -> bool:
    """Whether anything is redirected at all."""
    return policy.mode is not Mode.NONE


def plain_ports(policy: Policy) -> tuple[int, ...]:
    """The ports to listen on where nft cannot redirect. ALLOWLIST stays complete, OPEN and SINKHOLE see these only."""
    if not catches(policy):
        return ()
    usual = PLAIN_PORTS if policy.mode in (Mode.OPEN, Mode.SINKHOLE) else ()
    return tuple(sorted({*usual, *(rule.port for rule in policy.rules)} - {DNS_PORT}))


def _takes(policy: Policy) -> list[str]:
    redirect = f"meta l4proto tcp redirect to :{CATCH_PORT}"
    named = [f"ip daddr {POOL} {redirect}"]
    named += [f"ip6 daddr {a} {redirect}" if ":" in a else f"ip daddr {a} {redirect}" for a in literals(policy)]
    match policy.mode:
        case Mode.NONE:
            return []
        case Mode.SINKHOLE:
            return [redirect]
        case Mode.ALLOWLIST:
            return named
        case Mode.OPEN:
            forbidden = [
                f"ip daddr {{ {', '.join(NON_PUBLIC_V4)} }} return",
                f"ip6 daddr {{ {', '.join(NON_PUBLIC_V6)} }} return",
            ]
            return [*named, *forbidden, redirect]
        case _:
            assert_never(policy.mode)
