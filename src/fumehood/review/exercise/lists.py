"""Ask a live server for its lists: each sort that it offers, page by page."""

from fumehood.core import limits
from fumehood.core.jsonio import JsonObject
from fumehood.review.exercise.child import Live
from fumehood.review.exercise.listing import SORTS, Listing
from fumehood.wire.conversation import Reply, TimedOut


async def read(live: Live) -> None:
    """Ask for every list and keep them in `live.lists`, one after another while the child's time lasts."""
    introduction = live.talk.introduction
    offered = introduction.capabilities if introduction else {}
    for sort in SORTS:
        listing = live.lists[sort.what] = Listing(sort, offered=sort.capability in offered)
        await fill(live, listing)


async def fill(live: Live, listing: Listing) -> None:
    """Read one list, page by page."""
    params: JsonObject = {}
    while listing.offered:
        cursor = listing.take(await _page(live, listing.sort.method, params))
        if cursor is None:
            break
        params = {"cursor": cursor}


async def _page(live: Live, method: str, params: JsonObject) -> Reply:
    seconds = min(limits.LIST_SECONDS, live.seconds_left)
    return await live.talk.request(method, params, seconds=seconds) if seconds > 0 else TimedOut(seconds=0.0)
