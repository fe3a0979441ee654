"""Look-up pages of tenants and their money. Hashes of tokens are not shown."""

from django.contrib import admin

from laissez.admin import LookUpOnly
from tenants.models import Account, ApiToken, Attempt, Entry, Hold, IdempotencyKey, Invitation, Member, Tenant, Transfer


@admin.register(Tenant)
class TenantAdmin(LookUpOnly):
    """Tenants."""

    list_display = ("name", "public_id", "created_at")
    search_fields = ("name", "public_id")
    ordering = ("name",)


@admin.register(Member)
class MemberAdmin(LookUpOnly):
    """Who may act for whom."""

    list_display = ("user", "tenant", "role")
    list_select_related = ("user", "tenant")
    search_fields = ("user__username", "tenant__name")


@admin.register(ApiToken)
class ApiTokenAdmin(LookUpOnly):
    """Tokens, without their hashes."""

    list_display = ("name", "prefix", "tenant", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("tenant",)
    search_fields = ("name", "prefix", "public_id", "tenant__name")
    exclude = ("digest",)
    ordering = ("-id",)


@admin.register(Invitation)
class InvitationAdmin(LookUpOnly):
    """Invitations, without their hashes."""

    list_display = ("tenant", "role", "note", "created_by", "expires_at", "used_by", "used_at", "withdrawn_at")
    list_select_related = ("tenant", "used_by")
    search_fields = ("public_id", "note", "tenant__name")
    exclude = ("digest",)
    ordering = ("-id",)


@admin.register(Attempt)
class AttemptAdmin(LookUpOnly):
    """Tries that are rationed, by the hash of who tried."""

    list_display = ("at", "what", "who")
    search_fields = ("what", "who")
    ordering = ("-id",)


@admin.register(Account)
class AccountAdmin(LookUpOnly):
    """Accounts with their running figures, in micro-dollars."""

    list_display = (
        "kind",
        "tenant",
        "balance_microdollars",
        "held_microdollars",
        "credit_limit_microdollars",
    )
    list_select_related = ("tenant",)
    readonly_fields = ("balance_microdollars", "held_microdollars")


class EntryInline(admin.TabularInline):
    """The sides of a transfer."""

    model = Entry
    extra = 0
    can_delete = False


@admin.register(Transfer)
class TransferAdmin(LookUpOnly):
    """Settled movements of money with their sides."""

    list_display = ("at", "kind", "reference", "key")
    search_fields = ("reference", "key")
    ordering = ("-id",)
    inlines = (EntryInline,)


@admin.register(Entry)
class EntryAdmin(LookUpOnly):
    """One side of a settled transfer, in micro-dollars."""

    list_display = ("transfer", "account", "amount_microdollars")
    list_select_related = ("transfer", "account__tenant")
    search_fields = ("transfer__reference", "transfer__key", "account__tenant__name")
    ordering = ("-id",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(LookUpOnly):
    """Requests already answered; not the answers, which may tell a job's bids."""

    list_display = ("key", "tenant", "status", "answered_at")
    list_select_related = ("tenant",)
    search_fields = ("key", "tenant__name")
    exclude = ("body", "fingerprint")
    ordering = ("-id",)


@admin.register(Hold)
class HoldAdmin(LookUpOnly):
    """Funds set aside, the newest first; not how much, which would tell a job's dearest bid."""

    exclude = ("amount_microdollars",)
    list_display = ("reference", "account", "opened_at", "renewed_at", "released_at")
    list_select_related = ("account__tenant",)
    search_fields = ("reference",)
    ordering = ("-id",)
