"""Look-up pages of the execution half, and an operator's acts on hosts. Rows move through services alone.

What would show a tenant's bids (a job as submitted) is left out: nobody is shown what a winner would have paid.
"""

from functools import partial
from typing import Any, Protocol

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from laissez.admin import LookUpOnly
from laissez.errors import Refused
from laissez.events import Outbox, transact
from workers.models import (
    Accelerator,
    Artifact,
    Checkpoint,
    Cluster,
    Ear,
    EnrolmentCode,
    Host,
    Job,
    Lease,
    LogChunk,
    Migration,
    ProgressSample,
)
from workers.services import hosts


class Act(Protocol):
    """An act of an operator on a host; the service audits it."""

    def __call__(self, host: Host, *, actor: str, reason: str, outbox: Outbox) -> Host:
        """The host as it is afterwards."""


class ReasonedActionForm(ActionForm):
    """An act on a host is said with its reason."""

    reason = forms.CharField(required=False, max_length=500, label="Reason")


@admin.register(Cluster)
class ClusterAdmin(LookUpOnly):
    """Clusters and their terms."""

    list_display = ("slug", "name", "rule", "notice_seconds", "last_tick_at", "tick_number")
    search_fields = ("slug", "name")
    ordering = ("slug",)


@admin.register(Host)
class HostAdmin(LookUpOnly):
    """Hosts, with the acts of approving, draining and retiring them."""

    list_display = ("name", "cluster", "state", "isolation", "last_heard_at", "refusals", "public_id")
    list_filter = ("state", "cluster")
    list_select_related = ("cluster",)
    search_fields = ("name", "public_id")
    exclude = ("key_digest",)
    ordering = ("cluster", "name")
    action_form = ReasonedActionForm
    actions = ("approve", "drain", "retire")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whoever may change hosts may act on them; the rows themselves are changed by nobody here."""
        return request.user.has_perm("workers.change_host")

    @admin.action(permissions=["operate"], description="Approve the hosts, or take them back from draining")
    def approve(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """They may take leases."""
        self._act(request, queryset, hosts.approve)

    @admin.action(permissions=["operate"], description="Drain the hosts: their jobs get notice")
    def drain(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """They get no more leases; those they have end as their notices do."""
        self._act(request, queryset, hosts.drain)

    @admin.action(permissions=["operate"], description="Retire the hosts for good; they must be empty")
    def retire(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Their keys are good no more."""
        self._act(request, queryset, hosts.retire)

    def _act(self, request: HttpRequest, queryset: QuerySet[Host], act: Act) -> None:
        """Each host in a transaction of its own, so that one refusal stops no other."""
        reason = request.POST.get("reason", "").strip()
        if not reason:
            self.message_user(request, "Nothing was done: say why, in the field beside the action.", messages.ERROR)
            return
        for host in queryset.order_by("pk"):
            try:
                moved = transact(partial(_acted, host, act, f"user {request.user}", reason))
            except Refused as refusal:
                self.message_user(request, f"Host {host.name}: {refusal.detail}", messages.ERROR)
            else:
                self.message_user(request, f"Host {host.name} is {moved.state}.", messages.SUCCESS)


def _acted(host: Host, act: Act, actor: str, reason: str, outbox: Outbox) -> Host:
    return act(host, actor=actor, reason=reason, outbox=outbox)


@admin.register(EnrolmentCode)
class EnrolmentCodeAdmin(LookUpOnly):
    """One-time codes, without their digests."""

    list_display = ("cluster", "approves", "created_at", "expires_at", "used_by")
    list_select_related = ("cluster", "used_by")
    exclude = ("digest",)
    ordering = ("-id",)


@admin.register(Accelerator)
class AcceleratorAdmin(LookUpOnly):
    """Devices."""

    list_display = ("public_id", "type", "index", "host", "emulated", "healthy", "fence")
    list_filter = ("healthy", "emulated", "type")
    list_select_related = ("type", "host")
    search_fields = ("public_id", "host__name")


@admin.register(Artifact)
class ArtifactAdmin(LookUpOnly):
    """What tenants have uploaded."""

    list_display = ("public_id", "tenant", "size_bytes", "sha256", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("public_id", "sha256", "tenant__name")
    ordering = ("-id",)


@admin.register(Job)
class JobAdmin(LookUpOnly):
    """Jobs: where they are and why, but not what they bid."""

    list_display = ("name", "public_id", "tenant", "cluster", "state", "reason", "submitted_at")
    list_filter = ("state", "cluster")
    list_select_related = ("tenant", "cluster")
    search_fields = ("name", "public_id", "tenant__name")
    exclude = ("spec", "policy_params", "budget_microdollars")
    ordering = ("-id",)


@admin.register(Lease)
class LeaseAdmin(LookUpOnly):
    """Who sits and sat where."""

    list_display = ("public_id", "job", "type", "host", "state", "reason", "handed_over_at", "ended_at")
    list_filter = ("state", "reason", "type")
    list_select_related = ("job", "type", "host")
    search_fields = ("public_id", "job__public_id", "job__name", "host__name")
    ordering = ("-id",)


@admin.register(Checkpoint)
class CheckpointAdmin(LookUpOnly):
    """Committed states."""

    list_display = ("public_id", "job", "progress", "size_bytes", "committed_at")
    list_select_related = ("job",)
    search_fields = ("public_id", "job__public_id")
    ordering = ("-id",)


@admin.register(Migration)
class MigrationAdmin(LookUpOnly):
    """Moves of jobs with their phases."""

    list_display = ("public_id", "job", "source", "destination", "mode", "state", "reason", "opened_at")
    list_filter = ("state", "mode")
    list_select_related = ("job", "source", "destination")
    search_fields = ("public_id", "job__public_id")
    ordering = ("-id",)


@admin.register(LogChunk)
class LogChunkAdmin(LookUpOnly):
    """That something was written, and how much had been; the text is the tenant's own."""

    list_display = ("job", "lease", "stream", "offset", "received_at")
    list_select_related = ("job", "lease")
    search_fields = ("job__public_id", "lease__public_id")
    exclude = ("text",)
    ordering = ("-id",)


@admin.register(ProgressSample)
class ProgressSampleAdmin(LookUpOnly):
    """Points of progress; the loss is the tenant's own."""

    list_display = ("job", "lease", "progress", "step", "received_at")
    list_select_related = ("job", "lease")
    search_fields = ("job__public_id",)
    exclude = ("loss",)
    ordering = ("-id",)


@admin.register(Ear)
class EarAdmin(LookUpOnly):
    """Since when hosts can be heard."""

    list_display = ("hears", "checked_at", "listening_since")

    def has_module_permission(self, request: HttpRequest) -> Any:
        """Shown to whoever may look at hosts."""
        return request.user.has_perm("workers.view_host")
