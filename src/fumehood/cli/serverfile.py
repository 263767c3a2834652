"""`fumehood review request server.json`: a request for each package, and on stderr what is not passed on."""

import dataclasses
from pathlib import Path

from fumehood.cli import render
from fumehood.core import jsonio, limits
from fumehood.review import files, request, serverjson, source
from fumehood.review.request import RequestRefusedError
from fumehood.review.source import Wishes


def requests(path: Path, package: int | None, wishes: Wishes) -> None:
    """Print one request as a document, several as JSON lines; arguments of the command line stand for the file's."""
    found = serverjson.parse(files.read(path, size=limits.JSON_REQUEST_BYTES))
    usable = serverjson.chosen(found, package)
    made, refused = _made(usable, wishes)
    if not made and refused:
        raise refused[-1][1]
    if len(made) == 1:
        render.document(made[0])
    else:
        for value in made:
            render.data(jsonio.dump(value).decode("ascii").rstrip("\n"))
    for place, error in refused:
        render.words(f"{place}: {'; '.join(str(refusal) for refusal in error.refusals)}")
    for offer in found if package is None else usable:
        if offer.refused:
            render.words(f"{offer.place}: {offer.refused}")
        for text in offer.left_out:
            render.words(f"{offer.place}: {text}")


def _made(
    offers: tuple[serverjson.Offer, ...], wishes: Wishes
) -> tuple[list[jsonio.JsonValue], list[tuple[str, RequestRefusedError]]]:
    """The requests, and the packages whose names or versions no request may have."""
    made: list[jsonio.JsonValue] = []
    refused: list[tuple[str, RequestRefusedError]] = []
    for offer in offers:
        try:
            made.append(_request(offer, wishes))
        except RequestRefusedError as error:
            refused.append((offer.place, error))
    return made, refused


def _request(offer: serverjson.Offer, wishes: Wishes) -> jsonio.JsonValue:
    wished = wishes if wishes.argv else dataclasses.replace(wishes, argv=offer.argv)
    return request.to_value(request.convert(source.request(source.Source(target=offer.target), wished)))
