"""Kinds of streams: who may read one, and what its snapshot holds. Apps register them from their module `streams`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from laissez.errors import NotFound, Refused
from laissez.feed.folding import Entities

MAX_NAME_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Reader:
    """Who asks for a stream, as far as streams care.

    Args:
        tenant: the public id of the tenant it acts for; None for an anonymous reader or an operator without one.
        scopes: what it may do for that tenant.
        is_operator: may read `ops`.
        is_known: has signed in or shown a token.
    """

    tenant: str | None = None
    scopes: frozenset[str] = frozenset()
    is_operator: bool = False
    is_known: bool = True

    def needs(self, scope: str) -> None:
        """Refuse a reader without this scope: 401 where it has not said who it is, else 403."""
        if scope in self.scopes:
            return
        if not self.is_known:
            raise Refused("not_authenticated", "Sign in, or show a token, to read this stream.", status=401)
        raise Refused("scope_missing", f"This stream needs the scope {scope}.", status=403)


ANONYMOUS = Reader(is_known=False)


@dataclass(frozen=True, slots=True)
class StreamKind:
    """The streams whose names begin with a prefix.

    Args:
        prefix: such as `market:`; a whole name for a kind with one stream.
        admit: raises Refused (401, 403, 404) for a reader who may not read the stream of this name.
        snapshot: the stream's rows by entity and subject.
    """

    prefix: str
    admit: Callable[[Reader, str], None]
    snapshot: Callable[[str], Entities]


_kinds: dict[str, StreamKind] = {}


def register(kinds: Iterable[StreamKind]) -> None:
    """Make kinds of streams known."""
    for kind in kinds:
        _kinds[kind.prefix] = kind


def kind_of(name: str) -> StreamKind:
    """The kind of a stream.

    Raises:
        NotFound: there is no such kind.
    """
    head, colon, rest = name.partition(":")
    found = _kinds.get(head + colon)
    # Slugs and public ids are plain ASCII; a NUL or half a surrogate pair could not even be looked up.
    if found is None or (colon and not rest) or not (name.isascii() and name.isprintable()):
        raise NotFound("stream")
    return found


def may_read(reader: Reader, name: str) -> None:
    """Refuse a reader who may not read this stream; somebody else's stream is no such stream.

    Raises:
        Refused: 401, 403 or 404.
    """
    kind_of(name).admit(reader, name)
