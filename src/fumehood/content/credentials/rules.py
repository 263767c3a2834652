"""All rules of ours, in the order in which they win where two find the same place. Pure."""

from typing import Final

from fumehood.content.credentials.model import Rule
from fumehood.content.credentials.named import NAMED
from fumehood.content.credentials.providers import PROVIDERS

RULES: Final[tuple[Rule, ...]] = (*PROVIDERS, *NAMED)
