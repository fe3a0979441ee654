"""Look-up pages for operators. What is history or money cannot be changed here, only read."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from laissez.models import AuditEntry, Event, Stream


class LookUpOnly(admin.ModelAdmin):
    """An admin page that shows rows and changes none: state moves through services alone."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False


@admin.register(Stream)
class StreamAdmin(LookUpOnly):
    """Streams and how far they count."""

    list_display = ("name", "last_seq")
    search_fields = ("name",)
    ordering = ("name",)


@admin.register(Event)
class EventAdmin(LookUpOnly):
    """Events, newest first. What they carry is left out: a job's stream tells of its own bids."""

    list_display = ("at", "stream", "seq", "type", "subject")
    list_select_related = ("stream",)
    search_fields = ("public_id", "subject", "stream__name")
    exclude = ("data",)
    ordering = ("-id",)


@admin.register(AuditEntry)
class AuditEntryAdmin(LookUpOnly):
    """Who changed what."""

    list_display = ("at", "actor", "action", "subject", "reason")
    search_fields = ("actor", "action", "subject")
    ordering = ("-id",)
