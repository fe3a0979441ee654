"""How the web process answers a request: read by the event loop, answered by one thread of a small pool.

Django's own handler hops between the loop and a fresh thread for its signals, its middleware and the view of every
request. All of ours are plain functions, so that one hop serves them all; threads that stay keep what they have loaded.
"""

import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_resolver, set_script_prefix

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

NEW_OBJECTS, YOUNG_ROUNDS, OLD_ROUNDS = 50_000, 20, 20
"""When cycles are looked for: after so many new objects, and among the older ones after so many such rounds."""

THREADS = 32
"""More than database connections, so that what needs none is answered while all of them wait for a lock."""


class OneHopHandler(ASGIHandler):
    """See the module. A client that goes away does not stop what it has asked for: a thread cannot be stopped."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._in_thread = sync_to_async(self._respond, thread_sensitive=False, executor=threads)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            await self.send_response(await self._in_thread(scope, body), send)

    def _respond(self, scope: Mapping[str, Any], body: Any) -> HttpResponseBase:
        """The whole answer, and nothing of the thread's left open behind it."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            response = _whole(self._answered(*self.create_request(scope, body)))
            response.close()
            return response
        finally:
            close_old_connections()

    def _answered(self, request: ASGIRequest | None, failure: HttpResponseBase | None) -> HttpResponseBase:
        """The answer to what could be read as a request, else the refusal that says that it could not."""
        if request is None:
            assert failure is not None
            return failure
        return self.get_response(request)


def spare_what_stays() -> None:
    """Look for cycles less often, and never among what the program itself consists of. Call it once all is loaded.

    By default a request that reads ten thousand rows goes through all of Django's objects several times over, which
    took a third of a large bulk change.
    """
    get_resolver().url_patterns  # noqa: B018 - loads every view
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, YOUNG_ROUNDS, OLD_ROUNDS)


def _whole(response: HttpResponseBase) -> HttpResponseBase:
    """The same answer with what it streams, such as a static file, read: only this thread may wait for a disk."""
    if not isinstance(response, StreamingHttpResponse):
        return response
    with closing(response):
        content = b"".join(cast("Iterator[bytes]", response.streaming_content))
    whole = HttpResponse(content, status=response.status_code, reason=response.reason_phrase, headers=response.headers)
    whole.cookies = response.cookies
    return whole
