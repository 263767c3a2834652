"""All rules of ours, in the order in which they win where two find the same place. Pure."""

from typing import Final

from fumehood.content.credentials.clouds import CLOUDS
from fumehood.content.credentials.forges import FORGES
from fumehood.content.credentials.model import Rule
from fumehood.content.credentials.named import NAMED
from fumehood.content.credentials.services import SERVICES

RULES: Final[tuple[Rule, ...]] = (*FORGES, *CLOUDS, *SERVICES, *NAMED)
