"""Look-up pages of the market, and the operator's one lever on it: base and cap prices, set through their service.

A bid is shown without its price: nobody is shown what a winner would have paid.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from laissez.admin import LookUpOnly
from laissez.errors import Refused
from laissez.events import transact
from markets.engine.money import format_price, parse_price
from markets.models import Award, Bid, BillingSlice, Clearing, CoolDown, Notice, Quote
from markets.services import exchange
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


class PricesForm(forms.Form):
    """Base and cap price of one type, with the reason and the version that the operator has seen."""

    base = PriceField(label="Base price", help_text="The least a winner pays, in dollars per accelerator-hour.")
    cap = PriceField(label="Cap price", help_text="The most any bid counts for, in dollars per accelerator-hour.")
    reason = forms.CharField(
        label="Reason", max_length=exchange.MAX_REASON_LENGTH, help_text="Kept with the change in the audit trail."
    )
    expected_version = forms.IntegerField(widget=forms.HiddenInput)


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
        }
        return render(request, "admin/set_prices.html", context)

    def _take(self, request: HttpRequest, row: AcceleratorType, form: PricesForm) -> bool:
        given = form.cleaned_data
        try:
            changed = transact(
                lambda outbox: exchange.set_prices(
                    row,
                    base=given["base"],
                    cap=given["cap"],
                    actor=f"user {request.user}",
                    reason=given["reason"],
                    expected_version=given["expected_version"],
                    outbox=outbox,
                )
            )
        except Refused as refusal:
            for fault in refusal.faults:
                form.add_error(None, fault.detail)
            form.data = dict(form.data.items()) | {
                "expected_version": str(row.version)
            }  # shown now, so seen at the next try
            return False
        prices = f"base {_dollars(changed.base_price_per_hour)}, cap {_dollars(changed.cap_price_per_hour)}"
        self.message_user(request, f"{changed.slug}: {prices}. The next tick clears with it.", messages.SUCCESS)
        return True


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

    list_display = ("cluster", "number", "at", "rule", "rule_version")
    list_filter = ("cluster",)
    list_select_related = ("cluster",)
    ordering = ("-id",)


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
