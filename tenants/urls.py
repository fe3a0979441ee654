"""The addresses of this app: signing in and out, and the tenant's own corner of the API."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from laissez.feed.api import SchemasView, SchemaView
from tenants.api import BalanceView, StatementView
from tenants.feed import EventsView, SnapshotView

urlpatterns = [
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="/login/"), name="logout"),
    path("api/v1/events", EventsView.as_view(), name="events"),
    path("api/v1/events/snapshot", SnapshotView.as_view(), name="snapshot"),
    path("api/v1/schemas", SchemasView.as_view()),
    path("api/v1/schemas/<str:name>", SchemaView.as_view(), name="schema"),
    path("api/v1/balance", BalanceView.as_view(), name="balance"),
    path("api/v1/statement", StatementView.as_view(), name="statement"),
]
