"""The feed by REST, for tokens, for people who are signed in, and for everybody as far as the market is public."""

from django.contrib.auth.models import AnonymousUser
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request

from laissez.feed import api
from laissez.feed.streams import ANONYMOUS, Reader
from tenants import readers
from tenants.auth import SESSION_TENANT, Principal, TokenAuthentication, principal_of


class _Caller(api.StreamView):
    """A view's way to the reader behind a request."""

    authentication_classes = [TokenAuthentication, SessionAuthentication]

    def reader(self, request: Request) -> Reader:
        """The token's, the signed-in person's, or an anonymous one."""
        if isinstance(request.auth, Principal):
            return readers.of(request.auth, is_operator=False)
        user = request.user
        if user is None or isinstance(user, AnonymousUser) or user.pk is None:
            return ANONYMOUS
        chosen = request._request.session.get(SESSION_TENANT)
        principal = principal_of(user.pk, str(user), chosen=chosen)
        return readers.of(principal, is_operator=bool(user.is_staff))


class EventsView(_Caller, api.EventsView):
    """`GET /api/v1/events`."""


class SnapshotView(_Caller, api.SnapshotView):
    """`GET /api/v1/events/snapshot`."""
