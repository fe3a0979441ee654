"""How the web process answers a request: read by the event loop, answered by one thread of a small pool.

Django's own handler hops between the loop and a fresh thread for its signals, its middleware and the view of every
request. All of ours are plain functions, so that one hop serves them all; threads that stay keep what they have loaded.
"""

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpResponseBase
from django.urls import set_script_prefix

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

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
            response = await self._in_thread(scope, body)
            await self.send_response(response, send)
        if response.streaming:
            await sync_to_async(response.close)()

    def _respond(self, scope: Mapping[str, Any], body: Any) -> HttpResponseBase:
        """The whole answer, and nothing of the thread's left open behind it; a file that is sent is closed later."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            response = self._answered(*self.create_request(scope, body))
            if not response.streaming:
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
