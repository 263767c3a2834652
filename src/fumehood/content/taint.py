"""What a result says of its origin to machines: where its content came from, and what the controls saw in it. Pure.

A client shows `structuredContent` to its model, or not; `_meta` is for what stands between server and model. A gateway
can refuse, hold back or confine by it, whatever the model makes of the content.
"""

from collections.abc import Mapping

from fumehood.core.jsonio import JsonValue

MEMBER = "fumehood/taint"  # the member of a result's `_meta`


def of(report: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The taint of a reply, from the report of `content.control.present`."""
    redaction, signals = report["redaction"], report["signals"]
    names = {str(signal["name"]) for signal in signals if isinstance(signal, dict)} if isinstance(signals, list) else ()
    return {
        "source": "workspace",
        "trust": "untrusted",
        "level": report["level"],
        "risk": report["risk"],
        "signals": [*sorted(names)],
        "redacted": redaction["count"] if isinstance(redaction, dict) else 0,
        "nonce": report["nonce"],
        "controls_off": report.get("controls_off", []),
    }
