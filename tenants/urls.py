"""The addresses of this app: signing in and out, and the tenant's own corner of the API."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from laissez.feed.api import SchemasView, SchemaView
from tenants.api import BalanceView, RevokeTokenView, RollTokenView, StatementView, TokensView
from tenants.feed import EventsView, SnapshotView
from tenants.views import joining, members, settings, tokens

urlpatterns = [
    path("login/", joining.RationedLoginView.as_view(), name="login"),
    path("admin/login/", joining.RationedLoginView.as_view()),
    path("logout/", LogoutView.as_view(next_page="/login/"), name="logout"),
    path("signup", joining.sign_up, name="sign_up"),
    path("join/<str:code>", joining.join, name="join"),
    path("settings", settings.settings, name="settings"),
    path("settings/tenant", settings.choose_tenant, name="choose_tenant"),
    path("settings/tokens", tokens.tokens, name="tokens"),
    path("settings/tokens/new", tokens.create, name="create_token"),
    path("settings/tokens/<str:token>/roll", tokens.roll, name="roll_token"),
    path("settings/tokens/<str:token>/revoke", tokens.revoke, name="revoke_token"),
    path("settings/members", members.members, name="members"),
    path("settings/members/invite", members.invite, name="invite"),
    path("settings/members/<int:member>/role", members.change_role, name="change_role"),
    path("settings/members/<int:member>/remove", members.remove, name="remove_member"),
    path("settings/invitations/<str:invitation>/withdraw", members.withdraw, name="withdraw_invitation"),
    path("settings/password", joining.OwnPasswordView.as_view(), name="password"),
    path("api/v1/events", EventsView.as_view(), name="events"),
    path("api/v1/events/snapshot", SnapshotView.as_view(), name="snapshot"),
    path("api/v1/schemas", SchemasView.as_view()),
    path("api/v1/schemas/<str:name>", SchemaView.as_view(), name="schema"),
    path("api/v1/tokens", TokensView.as_view()),
    path("api/v1/tokens/<str:token>/revoke", RevokeTokenView.as_view()),
    path("api/v1/tokens/<str:token>/roll", RollTokenView.as_view()),
    path("api/v1/balance", BalanceView.as_view(), name="balance"),
    path("api/v1/statement", StatementView.as_view(), name="statement"),
]
