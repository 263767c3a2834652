"""`fumehood code runner`: what `--listen` takes, and that whoever cannot serve says why."""

import click
import pytest

from fumehood.cli.running import listening


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8777", "127.0.0.1", 8777),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("[::1]:0", "::1", 0),
        ("runner.internal:65535", "runner.internal", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert listening(text) == {"code.host": host, "code.port": port}


@pytest.mark.parametrize(
    "text",
    ["", "8777", ":8777", "h", "h:", "h:x", "h:-1", "h:65536", "::1:8777", "h:٣", "h:" + "9" * 5000],
)
def test_what_is_no_address_is_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"HOST:PORT, for example"):
        listening(text)


def test_without_the_option_the_settings_say_where() -> None:
    assert listening(None) == {}
