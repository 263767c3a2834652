"""What one start said and did, gathered for a comparison with another start."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping

from fumehood.core import jsonio, limits
from fumehood.core.jsonio import JsonValue
from fumehood.review.exercise import definitions, handshake
from fumehood.review.exercise.child import Spoken
from fumehood.review.exercise.compare import Heard, List
from fumehood.review.exercise.listing import Listing
from fumehood.review.show import show_text, show_untrusted


def heard(spoken: Spoken) -> Heard:
    """One start of the server."""
    ended = handshake.judge(spoken.outcome, show_untrusted, spoken.start.asks)
    introduction = None if spoken.talk is None else spoken.talk.introduction
    acts = spoken.acts
    if ended is not None or introduction is None:
        return Heard(handshake="no_answer" if ended is None else ended.code, programs=acts.programs, hosts=acts.hosts)
    server = {
        "name": show_text(introduction.server_name),
        "version": show_text(introduction.server_version),
        "title": None if introduction.server_title is None else show_text(introduction.server_title),
        "instructions": None if introduction.instructions is None else show_text(introduction.instructions),
    }
    return Heard(
        handshake="completed",
        server={key: value for key, value in server.items() if value is not None},
        capabilities=dict(digests(introduction.capabilities)),
        lists={what: list_of(one) for what, one in spoken.lists.items()},
        programs=acts.programs,
        hosts=acts.hosts,
    )


def digests(capabilities: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """The digest of what is said of each, of the first ones by name, of the others together."""
    first = dict(itertools.islice(capabilities.items(), limits.CAPABILITIES))
    for name, said in first.items():
        yield name, hashlib.sha256(jsonio.canonical(said)).hexdigest()
    if len(capabilities) > len(first):
        others = {name: said for name, said in capabilities.items() if name not in first}
        yield "…", hashlib.sha256(jsonio.canonical(others)).hexdigest()


def list_of(listing: Listing) -> List:
    """One list as two starts, or two moments, are compared by it."""
    return List(
        state="complete" if listing.complete else listing.why,
        digest=definitions.digest_of([one.digest for one in listing.definitions]),
        definitions=listing.by_name,
    )
