"""Look-up pages of the market, and the operator's one lever on it: base and cap prices, through their services.

A bid is shown without its price: nobody is shown what a winner would have paid.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from laissez.admin import LookUpOnly
from laissez.errors import Refused
from laissez.events import Outbox, transact
from markets.engine.money import format_price, parse_price
from markets.models import (
    Award,
    Bid,
    BillingSlice,
    Clearing,
    CoolDown,
    FloorChange,
    Notice,
    PriceChange,
    Quote,
    Role,
    Supply,
)
from markets.services import announcing, exchange
from workers.admin import ReasonedActionForm
from workers.models import AcceleratorType


class PriceField(forms.CharField):
    """Dollars per accelerator-hour as text, micro-dollars as a value."""

    def clean(self, value: Any) -> Any:
        """The price, or why it is none."""
        text = super().clean(value)
        try:
            return parse_price(text)
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from error


NOW, LATER = "now", "later"


class PricesForm(forms.Form):
    """Base and cap price of one type, from when on, with the reason and the version that the operator has seen."""

    base = PriceField(label="Base price", help_text="The least a winner pays, in dollars per accelerator-hour.")
    cap = PriceField(label="Cap price", help_text="The most any bid counts for, in dollars per accelerator-hour.")
    takes_effect = forms.ChoiceField(
        label="Takes effect",
        choices=((NOW, "At the next tick"), (LATER, "At the time below, announced now")),
        initial=NOW,
        required=False,
        help_text="An announced change can be cancelled until then.",
    )
    effective_at = forms.DateTimeField(
        label="At",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1", "class": "vTextField"}),
    )
    reason_class = forms.ChoiceField(
        label="Reason for tenants",
        choices=PriceChange.ReasonClass.choices,
        initial=PriceChange.ReasonClass.OTHER,
        required=False,
        help_text="Published with an announced change.",
    )
    reason = forms.CharField(
        label="Reason",
        max_length=exchange.MAX_REASON_LENGTH,
        widget=forms.TextInput(attrs={"class": "vLargeTextField"}),
        help_text="Kept with the change in the audit trail.",
    )
    expected_version = forms.IntegerField(widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """A later time is given where it is to take effect later."""
        given: dict[str, Any] = super().clean() or {}
        if given.get("takes_effect") == LATER and not given.get("effective_at") and "effective_at" not in self.errors:
            self.add_error("effective_at", "Say when it takes effect, or let it do so at the next tick.")
        return given


def _dollars(price: int) -> str:
    return f"${format_price(price)}/h"


@admin.register(AcceleratorType)
class AcceleratorTypeAdmin(LookUpOnly):
    """Kinds of hardware with their prices."""

    list_display = ("slug", "cluster", "name", "base_price", "cap_price", "version", "set_prices")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    search_fields = ("slug", "name")
    fields = ("cluster", "slug", "name", "position", "base_price", "cap_price", "version", "set_prices")
    readonly_fields = ("base_price", "cap_price", "set_prices")

    @admin.display(description="base price", ordering="base_price_per_hour")
    def base_price(self, row: AcceleratorType) -> str:
        """With its unit."""
        return _dollars(row.base_price_per_hour)

    @admin.display(description="cap price", ordering="cap_price_per_hour")
    def cap_price(self, row: AcceleratorType) -> str:
        """With its unit."""
        return _dollars(row.cap_price_per_hour)

    @admin.display(description="prices")
    def set_prices(self, row: AcceleratorType) -> SafeString:
        """The way to the form."""
        return format_html('<a href="{}">Change base and cap</a>', reverse("admin:set_prices", args=[row.pk]))

    def get_urls(self) -> list[URLPattern]:
        """The look-up pages and the form."""
        form = path("<int:pk>/prices/", self.admin_site.admin_view(self.prices_view), name="set_prices")
        return [form, *super().get_urls()]

    def prices_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the form; take it, and say what came of it. A stale version is shown the present prices."""
        if not request.user.has_perm("workers.change_acceleratortype"):
            raise PermissionDenied
        row = AcceleratorType.objects.select_related("cluster").filter(pk=pk).first()
        if row is None:
            raise Http404
        form = PricesForm(request.POST) if request.method == "POST" else PricesForm(initial=_present(row))
        if request.method == "POST" and form.is_valid() and self._take(request, row, form):
            return redirect("admin:workers_acceleratortype_changelist")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Prices of {row.slug} in {row.cluster.slug}",
            "opts": self.opts,
            "form": form,
            "row": row,
            "base_now": _dollars(row.base_price_per_hour),
            "cap_now": _dollars(row.cap_price_per_hour),
            "announced": PriceChange.objects.filter(type=row, state=PriceChange.State.SCHEDULED).first(),
            "zone": timezone.get_current_timezone_name(),
            "notice_seconds": row.cluster.notice_seconds,
            "horizon_days": announcing.HORIZON.days,
        }
        return render(request, "admin/set_prices.html", context)

    def _take(self, request: HttpRequest, row: AcceleratorType, form: PricesForm) -> bool:
        given = form.cleaned_data
        act = partial(_announced if given["takes_effect"] == LATER else _set, row, given, f"user {request.user}")
        try:
            said = transact(act)
        except Refused as refusal:
            for fault in refusal.faults:
                form.add_error(FIELDS.get(fault.pointer), fault.detail)
            form.data = dict(form.data.items()) | {
                "expected_version": str(row.version)
            }  # shown now, so seen at the next try
            return False
        self.message_user(request, said, messages.SUCCESS)
        return True


FIELDS = {
    "/base_price_per_hour": "base",
    "/cap_price_per_hour": "cap",
    "/effective_at": "effective_at",
    "/reason_class": "reason_class",
    "/reason": "reason",
}
"""Where a fault of the services stands in the form."""


def _set(row: AcceleratorType, given: Mapping[str, Any], actor: str, outbox: Outbox) -> str:
    changed = exchange.set_prices(
        row,
        base=given["base"],
        cap=given["cap"],
        actor=actor,
        reason=given["reason"],
        expected_version=given["expected_version"],
        outbox=outbox,
    )
    prices = f"base {_dollars(changed.base_price_per_hour)}, cap {_dollars(changed.cap_price_per_hour)}"
    return f"{changed.slug}: {prices}. The next tick clears with it."


def _announced(row: AcceleratorType, given: Mapping[str, Any], actor: str, outbox: Outbox) -> str:
    change = announcing.announce_prices(
        row,
        base=given["base"],
        cap=given["cap"],
        effective_at=given["effective_at"],
        reason_class=given["reason_class"] or PriceChange.ReasonClass.OTHER,
        actor=actor,
        reason=given["reason"],
        expected_version=given["expected_version"],
        outbox=outbox,
    )
    prices = f"base {_dollars(change.base_price_per_hour)}, cap {_dollars(change.cap_price_per_hour)}"
    return f"{row.slug}: {prices} from {change.effective_at:%Y-%m-%d %H:%M:%S %Z} on, announced as {change.public_id}."


def _present(row: AcceleratorType) -> dict[str, Any]:
    return {
        "base": format_price(row.base_price_per_hour),
        "cap": format_price(row.cap_price_per_hour),
        "expected_version": row.version,
    }


@admin.register(Bid)
class BidAdmin(LookUpOnly):
    """The book and its history, without prices."""

    list_display = ("public_id", "job", "type", "position", "origin", "opened_at", "closed_at")
    list_filter = ("cluster", "type", "origin")
    list_select_related = ("job", "type")
    search_fields = ("public_id", "job__public_id", "job__tenant__name")
    exclude = ("max_price_per_hour", "keep_price_per_hour")
    ordering = ("-id",)


@admin.register(Award)
class AwardAdmin(LookUpOnly):
    """Wins that wait, or waited, for a device."""

    list_display = ("public_id", "job", "type", "state", "since", "deadline", "put_under_notice")
    list_filter = ("state", "type")
    list_select_related = ("job", "type")
    search_fields = ("public_id", "job__public_id")
    ordering = ("-id",)


@admin.register(Notice)
class NoticeAdmin(LookUpOnly):
    """Warnings and what came of them, without the job's bid."""

    list_display = ("public_id", "job", "lease", "reason", "state", "answer", "opened_at", "deadline")
    list_filter = ("reason", "state")
    list_select_related = ("job", "lease")
    search_fields = ("public_id", "job__public_id")
    exclude = ("bid_per_hour",)
    ordering = ("-id",)


@admin.register(CoolDown)
class CoolDownAdmin(LookUpOnly):
    """Rows closed to jobs for a while."""

    list_display = ("job", "type", "until", "length_seconds")
    list_select_related = ("job", "type")
    search_fields = ("job__public_id",)


@admin.register(Clearing)
class ClearingAdmin(LookUpOnly):
    """Receipts."""

    list_display = ("cluster", "number", "at", "rule", "rule_version", "keeps_roles")
    list_filter = ("cluster", "rule")
    list_select_related = ("cluster",)
    search_fields = ("=number",)
    exclude = ("salt",)
    ordering = ("-id",)


@admin.register(PriceChange)
class PriceChangeAdmin(LookUpOnly):
    """Announced base and cap prices. A scheduled one can be cancelled."""

    list_display = ("type", "effective_at", "base_price", "cap_price", "state", "reason_class", "actor", "public_id")
    list_filter = ("state", "reason_class", "type")
    list_select_related = ("type",)
    search_fields = ("public_id", "type__slug", "reason")
    ordering = ("-id",)
    action_form = ReasonedActionForm
    actions = ("cancel",)

    @admin.display(description="base price", ordering="base_price_per_hour")
    def base_price(self, row: PriceChange) -> str:
        """With its unit."""
        return _dollars(row.base_price_per_hour)

    @admin.display(description="cap price", ordering="cap_price_per_hour")
    def cap_price(self, row: PriceChange) -> str:
        """With its unit."""
        return _dollars(row.cap_price_per_hour)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whoever may change types may take back what was announced for them."""
        return request.user.has_perm("workers.change_acceleratortype")

    @admin.action(permissions=["operate"], description="Cancel the announced changes before they are in force")
    def cancel(self, request: HttpRequest, queryset: QuerySet[PriceChange]) -> None:
        """Each in a transaction of its own, so that one refusal stops no other."""
        reason = request.POST.get("reason", "").strip()
        if not reason:
            self.message_user(request, "Nothing was done: say why, in the field beside the action.", messages.ERROR)
            return
        for change in queryset.select_related("type__cluster").order_by("pk"):
            act = partial(announcing.cancel_price_change, change, actor=f"user {request.user}", reason=reason)
            try:
                transact(partial(_with_outbox, act))
            except Refused as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
            else:
                self.message_user(request, f"{change.public_id} is cancelled.", messages.SUCCESS)


def _with_outbox(act: Callable[..., PriceChange], outbox: Outbox) -> PriceChange:
    return act(outbox=outbox)


@admin.register(Role)
class RoleAdmin(LookUpOnly):
    """What jobs were in the book besides their bids, as receipts need it."""

    list_display = ("job", "cluster", "from_number", "until_number", "on_type", "to_type", "award_type", "absent")
    list_filter = ("cluster",)
    list_select_related = ("job", "cluster")
    search_fields = ("job__public_id",)
    ordering = ("-id",)


@admin.register(FloorChange)
class FloorChangeAdmin(LookUpOnly):
    """What the next tick has to read again."""

    list_display = ("id", "cluster", "job")
    list_filter = ("cluster",)
    list_select_related = ("cluster", "job")
    search_fields = ("job__public_id",)
    ordering = ("-id",)


@admin.register(Supply)
class SupplyAdmin(LookUpOnly):
    """What the exchange shows of a type besides its price."""

    list_display = ("type", "units_total", "units_free", "units_leaving", "waiting_awards", "depth")
    list_filter = ("type__cluster",)
    list_select_related = ("type",)
    ordering = ("type__cluster", "type__position")


@admin.register(Quote)
class QuoteAdmin(LookUpOnly):
    """Price history."""

    list_display = ("type", "during", "price", "lease_price", "supply", "cause")
    list_filter = ("type", "cause")
    list_select_related = ("type",)
    ordering = ("-id",)

    @admin.display(description="price", ordering="price_per_hour")
    def price(self, row: Quote) -> str:
        """With its unit."""
        return _dollars(row.price_per_hour)

    @admin.display(description="lease price", ordering="lease_price_per_hour")
    def lease_price(self, row: Quote) -> str:
        """With its unit."""
        return _dollars(row.lease_price_per_hour)


@admin.register(BillingSlice)
class BillingSliceAdmin(LookUpOnly):
    """What leases were billed for."""

    list_display = ("lease", "during", "amount", "waived_microdollars", "transfer")
    list_select_related = ("lease", "transfer")
    search_fields = ("lease__public_id",)
    ordering = ("-id",)

    @admin.display(description="amount", ordering="amount_microdollars")
    def amount(self, row: BillingSlice) -> str:
        """In dollars."""
        return f"${format_price(row.amount_microdollars)}"
