"""Reading bodies: what no database can hold, or nobody would send in earnest, does not get past here.

PostgreSQL's texts have no NUL and no lone surrogates, and its JSON no endless numbers. A tenant is told where such a
thing stands. A host is not: it passes on what tenants' programs print, which must never silence it, so its texts are
mended instead.
"""

import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from laissez.errors import Fault, Invalid

MAX_DEPTH = 64
MAX_BYTES = 256 * 1024**2
"""More than the largest form with files for several rows; a body is kept on disk before anybody knows whose it is."""

MAX_JSON_BYTES = 16 * 1024**2
"""JSON is read into memory, where it takes several times its length."""

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BoundedBodies:
    """An ASGI application whose requests end: one that says it is too long gets a 413, one that just is, is cut off."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        is_json = headers.get(b"content-type", b"").lower().startswith(b"application/json")
        most = MAX_JSON_BYTES if is_json else MAX_BYTES
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > most:
            await _refuse(send, most)
            return
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return message if read <= most else {"type": "http.disconnect"}

        await self._application(scope, bounded, send)


async def _refuse(send: Send, most: int) -> None:
    text = f"A body has at most {most} bytes here.\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "headers": headers})
    await send({"type": "http.response.body", "body": text})


class StrictJSONParser(JSONParser):
    """For everybody: a 400 that names the place of every value that could not be stored."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """Read the body."""
        value = _read(super().parse, *args, **kwargs)
        if faults := list(unstorable(value)):
            raise Invalid(faults)
        return value


class MendingJSONParser(JSONParser):
    """For hosts: a character that could not be stored becomes U+FFFD."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """Read the body."""
        return _mended(_read(super().parse, *args, **kwargs), depth=0)


def _read(parse: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return parse(*args, **kwargs)
    except RecursionError as error:
        raise _too_deep() from error


def _too_deep() -> ParseError:
    return ParseError(f"JSON parse error - the body is nested deeper than {MAX_DEPTH} levels.")


def unstorable(body: Any) -> Iterator[Fault]:
    """The values of a body that could not be stored, outermost first."""
    pending: list[tuple[str, Any, int]] = [("", body, 0)]
    while pending:
        at, value, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, str) and not _is_storable(value):
            yield Fault("bad_value", f"{value[:80]!r} contains a NUL or half a surrogate pair.", at)
        elif isinstance(value, float) and not math.isfinite(value):
            yield Fault("bad_value", "The number is beyond all bounds.", at)
        elif isinstance(value, list):
            pending += [(f"{at}/{place}", item, depth + 1) for place, item in enumerate(value)]
        elif isinstance(value, dict):
            if not all(map(_is_storable, value)):
                yield Fault("bad_value", "The name of a member contains a NUL or half a surrogate pair.", at)
            pending += [
                (f"{at}/{_escaped(name)}", item, depth + 1) for name, item in value.items() if _is_storable(name)
            ]


def _is_storable(text: str) -> bool:
    return UNSTORABLE.search(text) is None


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _mended(value: Any, *, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item, depth=depth + 1) for item in value]
    if isinstance(value, dict):
        return {_mended(name, depth=depth + 1): _mended(item, depth=depth + 1) for name, item in value.items()}
    return value
