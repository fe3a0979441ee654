"""Pages of a tenant begin here: who is signed in, and for which tenant. Views of other apps are wrapped by it."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_htmx.http import HttpResponseClientRefresh

from tenants.auth import SESSION_TENANT, Principal, principal_of

P = ParamSpec("P")


def viewer(request: HttpRequest) -> Principal | None:
    """The principal of a page's reader; None when nobody is signed in, or a person without a tenant."""
    user = request.user
    if user.pk is None:
        return None
    return principal_of(user.pk, str(user), chosen=request.session.get(SESSION_TENANT))


def tenant_page(
    needed: str,
) -> Callable[
    [Callable[Concatenate[HttpRequest, Principal, P], HttpResponse]],
    Callable[Concatenate[HttpRequest, P], HttpResponse],
]:
    """A page for members of a tenant: `@tenant_page("jobs:read")` over `def jobs(request, principal)`.

    Who is not signed in is sent to sign in; who lacks the scope gets a 403.
    """

    def wrap(
        view: Callable[Concatenate[HttpRequest, Principal, P], HttpResponse],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @wraps(view)
        def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            principal = viewer(request)
            if principal is None:
                return _stranger(request)
            if needed not in principal.scopes:
                raise PermissionDenied(f"needs {needed}")
            return view(request, principal, *args, **kwargs)

        return answer

    return wrap


def sign_in_first(request: HttpRequest) -> HttpResponse:
    """Send the reader to sign in. A page that updates itself is told to load anew, so that it arrives there whole."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponseClientRefresh()
    return redirect_to_login(request.get_full_path())


def _stranger(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return render(request, "no_tenant.html", status=403)
    return sign_in_first(request)
