"""The ground's records: streams of events and the audit trail. Written by `laissez.events`, immutable by triggers."""

from functools import partial

from django.db import models

from laissez.ids import new_id


class Stream(models.Model):
    """An ordered feed of events, such as `market:gemm` or `job:job_4fT...`. Created by its first event.

    Events below `first_seq` have been kept long enough and are purged: see `laissez.feed.retention`.
    """

    name = models.CharField(max_length=120, unique=True)
    last_seq = models.BigIntegerField(default=0)
    first_seq = models.BigIntegerField(
        default=1, db_default=1, help_text="The oldest event that is kept; one more than the last when none is."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(last_seq__gte=0), name="stream_last_seq_not_negative"),
            models.CheckConstraint(
                condition=models.Q(first_seq__gte=1, first_seq__lte=models.F("last_seq") + 1),
                name="stream_first_seq_within_its_numbers",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Event(models.Model):
    """One entry of a stream. `seq` counts from 1 without gaps, in the order of commits."""

    # A trigger sees to the stream, and the index of its numbers finds it.
    stream = models.ForeignKey(
        Stream, on_delete=models.PROTECT, related_name="events", db_constraint=False, db_index=False
    )
    seq = models.BigIntegerField()
    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "evt"), editable=False)
    type = models.CharField(max_length=120)
    subject = models.CharField(max_length=120)
    at = models.DateTimeField()
    data = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["stream", "seq"], name="event_numbered_once_per_stream"),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="event_seq_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.subject} #{self.seq}"


class AuditEntry(models.Model):
    """Who changed what, from what to what, and why. Written in the transaction of the privileged change itself."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=160)
    action = models.CharField(max_length=80)
    subject = models.CharField(max_length=120)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["subject", "at"], name="audit_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject} by {self.actor}"
