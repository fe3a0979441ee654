"""The addresses of this app: signing in and out, and the tenant's own corner of the API."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from tenants.api import BalanceView, StatementView

urlpatterns = [
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(next_page="/login/"), name="logout"),
    path("api/v1/balance", BalanceView.as_view(), name="balance"),
    path("api/v1/statement", StatementView.as_view(), name="statement"),
]
