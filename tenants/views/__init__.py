"""Pages of a tenant begin here: who is signed in, and for which tenant. Views of other apps are wrapped by it."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_htmx.http import HttpResponseClientRefresh

from laissez.api import request_id
from tenants.auth import SESSION_TENANT, Principal, principal_of

P = ParamSpec("P")
ACTING_FOR = "acting_for"
"""The field in which a form that makes something names the tenant that it was shown for."""


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
            if request.POST.get(ACTING_FOR, principal.tenant.public_id) != principal.tenant.public_id:
                return _changed_meanwhile(request, principal)
            return view(request, principal, *args, **kwargs)

        return answer

    return wrap


def _changed_meanwhile(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Another tab has switched tenants since the form was shown: it is not the new one's wish."""
    detail = f"This form was opened for another tenant, and you act for {principal.tenant} now. Nothing was done."
    context = {"title": "Another tenant", "detail": detail, "request_id": request_id(request)}
    return render(request, "problem.html", context, status=409)


def sign_in_first(request: HttpRequest) -> HttpResponse:
    """Send the reader to sign in. A page that updates itself is told to load anew, so that it arrives there whole."""
    if request.headers.get("HX-Request") == "true":
        return HttpResponseClientRefresh()
    return redirect_to_login(request.get_full_path())


def _stranger(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return render(request, "no_tenant.html", status=403)
    return sign_in_first(request)
