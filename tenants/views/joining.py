"""Coming in: signing in, signing up where that is open, and following an invitation. All of it is rationed."""

import unicodedata
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.http import require_http_methods

from laissez import clock
from laissez.errors import Fault, Refused
from laissez.events import Outbox, transact
from tenants import selectors
from tenants.auth import SESSION_TENANT
from tenants.models import Member
from tenants.services import people, rationing
from tenants.views import viewer
from tenants.views.settings import by_field, frame

COMING_IN = rationing.Ration(limit=20, per=timedelta(hours=1))
SIGNING_IN = rationing.Ration(limit=20, per=timedelta(minutes=15))
FAILING_AT_ALL = rationing.Ration(limit=200, per=timedelta(minutes=15))
INVALID = "This invitation is not good: it was used, withdrawn or has expired, or a part of its address is missing."


class RationedLoginView(LoginView):
    """Signing in, to the admin too, with limits on how often an address may try a name, and names, and fail."""

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Whether there is another way in."""
        return super().get_context_data(**context) | {"may_sign_up": settings.SIGNUP == "open"}

    def post(self, request: HttpRequest, *args: str, **kwargs: str) -> HttpResponse:
        """Check the password, unless too many were wrong lately."""
        try:
            _admit("sign in", self._who(), SIGNING_IN)
            _admit("sign in at all", _address(request), FAILING_AT_ALL)
        except Refused as refusal:
            context = self.get_context_data(form=AuthenticationForm(request), refused=refusal.detail)
            return self.render_to_response(context, status=refusal.status)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """A right password ends the counting."""
        rationing.forget("sign in", self._who())
        rationing.forgive("sign in at all", _address(self.request))
        return super().form_valid(form)

    def _who(self) -> str:
        """The address and the name, in the one form in which the name is looked up however it was typed."""
        name = unicodedata.normalize("NFKC", self.request.POST.get("username", "")).strip().casefold()
        return f"{_address(self.request)} {name}"


class OwnPasswordView(PasswordChangeView):
    """A new password, against the present one. Other sessions of the person end."""

    success_url = reverse_lazy("password")

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """The frame of settings around it."""
        return frame(self.request, viewer(self.request)) | super().get_context_data(**context)

    def post(self, request: HttpRequest, *args: str, **kwargs: str) -> HttpResponse:
        """Check the present password, unless too many were wrong lately: a session may be somebody else's by now."""
        try:
            _admit("change password", str(request.user.pk), SIGNING_IN)
        except Refused as refusal:
            form = self.get_form_class()(user=request.user)  # type: ignore[arg-type]  # signed in, or not here
            return self.render_to_response(
                self.get_context_data(form=form, refused=refusal.detail), status=refusal.status
            )
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: object) -> HttpResponse:
        """Say that it worked."""
        rationing.forget("change password", str(self.request.user.pk))
        messages.success(self.request, "Your password is changed. You are signed out everywhere else.")
        return super().form_valid(form)  # type: ignore[arg-type]


@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """A login and a tenant for anybody, where LAISSEZ_SIGNUP is `open`; elsewhere it says how to get one."""
    if settings.SIGNUP != "open":
        return render(request, "tenants/closed.html", {"by_invitation": settings.SIGNUP == "invite"}, status=404)
    if request.user.is_authenticated:
        return redirect("settings")
    if request.method != "POST":
        return _form(request, founds=True, is_open=True)
    return _come_in(request, partial(_sign_up, request), founds=True, is_open=True)


@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, code: str) -> HttpResponse:
    """What an invitation leads to; used by the first who accepts it."""
    if settings.SIGNUP == "closed":
        raise Http404
    invitation = selectors.invitation(code, now=clock.now())
    if invitation is None:
        return _closed(request)
    context: dict[str, Any] = {"invitation": invitation, "founds": invitation.tenant is None, "code": code}
    if request.method == "POST":
        return _come_in(request, partial(_accept, request, code), **context)
    return _form(request, **context)


def _closed(request: HttpRequest) -> HttpResponse:
    return render(request, "tenants/closed.html", {"invalid": INVALID}, status=404)


def _form(
    request: HttpRequest, *, status: int = 200, faults: dict[str, str] | None = None, **context: Any
) -> HttpResponse:
    """The form of whoever comes in, with what was typed but for the passwords."""
    typed = {name: request.POST.get(name, "") for name in ("username", "tenant_name")}
    shown = {"typed": typed, "faults": faults or {}, "now": clock.now(), **context}
    answer = render(request, "tenants/join.html", shown, status=status)
    answer["Cache-Control"] = "private, no-store"
    return answer


def _sign_up(request: HttpRequest, outbox: Outbox) -> Member:
    return people.sign_up(
        username=request.POST.get("username", ""),
        password=request.POST.get("password", ""),
        tenant_name=request.POST.get("tenant_name", "").strip(),
        outbox=outbox,
    )


def _accept(request: HttpRequest, code: str, outbox: Outbox) -> Member:
    tenant_name = request.POST.get("tenant_name", "").strip()
    if isinstance(request.user, User):
        return people.accept_as(request.user, code, tenant_name=tenant_name, outbox=outbox)
    return people.accept_as_new(
        code,
        username=request.POST.get("username", ""),
        password=request.POST.get("password", ""),
        tenant_name=tenant_name,
        outbox=outbox,
    )


def _come_in(request: HttpRequest, work: Callable[[Outbox], Member], **context: Any) -> HttpResponse:
    """Do it, sign the person in for their new tenant, or show the form again with what was wrong."""
    try:
        _admit("come in", _address(request), COMING_IN)
        if not request.user.is_authenticated and request.POST.get("password") != request.POST.get("again"):
            raise Refused("passwords_differ", "The two passwords differ.", "/again")
        member = transact(work)
    except Refused as refusal:
        if refusal.code == "invitation_invalid":
            return _closed(request)
        return _form(request, status=refusal.status, faults=by_field(_named(refusal)), **context)
    if not request.user.is_authenticated:
        login(request, member.user, backend="django.contrib.auth.backends.ModelBackend")
    request.session[SESSION_TENANT] = member.tenant.public_id
    messages.success(request, f"Welcome. You are {member.role} of {member.tenant}.")
    return redirect("landing")


def _named(refusal: Refused) -> list[Fault]:
    """The faults under the names of the form's fields."""
    names = {"/user": "/username", "/name": "/tenant_name"}
    return [Fault(fault.code, fault.detail, names.get(fault.pointer, fault.pointer)) for fault in refusal.faults]


def _admit(what: str, who: str, ration: rationing.Ration) -> None:
    transact(lambda outbox: rationing.admit(what, who, outbox=outbox, **ration))


def _address(request: HttpRequest) -> str:
    """Where a request comes from; of IPv6 the network, all of which one visitor has."""
    text = str(request.META.get("REMOTE_ADDR", ""))
    try:
        found = ip_address(text)
    except ValueError:
        return text
    if not isinstance(found, IPv6Address):
        return text
    return str(found.ipv4_mapped or ip_network((int(found), 64), strict=False))
