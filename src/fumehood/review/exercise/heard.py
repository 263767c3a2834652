"""What one start said and did, gathered for a comparison with another start."""

import hashlib

from fumehood.core import jsonio
from fumehood.review import handshake
from fumehood.review.exercise import definitions
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
        capabilities={
            name: hashlib.sha256(jsonio.canonical(said)).hexdigest() for name, said in introduction.capabilities.items()
        },
        lists={what: list_of(one) for what, one in spoken.lists.items()},
        programs=acts.programs,
        hosts=acts.hosts,
    )


def list_of(listing: Listing) -> List:
    """One list as two starts, or two moments, are compared by it."""
    return List(
        state="complete" if listing.complete else listing.why,
        digest=definitions.digest_of([one.digest for one in listing.definitions]),
        definitions=listing.by_name,
    )
