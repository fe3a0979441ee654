"""Simulated hosts: they call through the real `workers.services.sync`, and nothing runs on them.

A host with news (a lease to confirm, a first step, a checkpoint, an end) sends a message of its own; a workload takes
its first step as soon as its lease is confirmed and primary. That nothing has changed, which most hosts say most of
the time, is written for many of them at once, as `sync` would write it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection

from laissez.errors import Refused
from laissez.events import Outbox, transact
from workers.models import Cluster, Host
from workers.services import sync
from workers.services.reports import Report

TURNS = 8
"""Every host speaks at least once in so many turns."""
CHECKPOINT_BYTES = 1_000_000

_HEARTBEATS = """
    UPDATE workers_host SET last_heard_at = %(now)s, last_sequence = last_sequence + 1 WHERE id IN (
        SELECT id FROM workers_host
        WHERE cluster_id = %(cluster)s AND state IN ('ready', 'draining')
            AND mod(id, %(turns)s) = %(turn)s AND id <> ALL(%(silent)s)
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ) RETURNING id
"""
_RENEWALS = """
    UPDATE workers_lease SET expires_at = %(expires_at)s, last_heard_at = %(now)s WHERE id IN (
        SELECT id FROM workers_lease
        WHERE host_id = ANY(%(hosts)s) AND state IN ('active', 'closing') AND active_at IS NOT NULL
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    )
"""
_NEWS = """
    SELECT * FROM (
        SELECT host.id AS host, host.last_sequence, host.last_report, host.state = 'lost' AS is_back, lease.id AS lease,
               lease.public_id, lease.fence, lease.state, lease.ending, is_primary, job.progress,
               is_primary AND lease.state IN ('pending', 'active') AND lease.first_step_at IS NULL AS begins,
               state_of.steps AND (job.checkpoint_wanted_at IS NOT NULL OR move.id IS NOT NULL) AS saves,
               state_of.steps AND lease.id = ANY(%(completing)s) AS completes
        FROM workers_host AS host
        LEFT JOIN workers_lease AS lease ON lease.host_id = host.id AND lease.state <> 'closed'
        LEFT JOIN workers_job AS job ON job.id = lease.job_id
        LEFT JOIN workers_migration AS move
            ON move.source_id = lease.id AND move.state = 'awarded' AND move.destination_active_at IS NOT NULL
        CROSS JOIN LATERAL (SELECT coalesce(upper_inf(lease.primary_during), false) AS is_primary) AS tenure
        CROSS JOIN LATERAL (SELECT lease.state = 'active' AND is_primary AS steps) AS state_of
        WHERE host.cluster_id = %(cluster)s AND host.id <> ALL(%(silent)s)
            AND (lease.id IS NOT NULL AND host.state IN ('ready', 'draining') OR host.state = 'lost')
    ) AS held
    WHERE host IN (
        SELECT host_id FROM workers_lease WHERE state IN ('pending', 'closing')
    ) OR is_back OR begins OR saves OR completes
    ORDER BY host, lease
"""
_RUNNING = """
    SELECT lease.id FROM workers_lease AS lease JOIN workers_host AS host ON host.id = lease.host_id
    WHERE host.cluster_id = %s AND lease.state = 'active' AND lease.first_step_at IS NOT NULL
        AND upper_inf(lease.primary_during)
    ORDER BY hashint8extended(lease.id, %s), lease.id LIMIT %s
"""


@dataclass(slots=True)
class Hosts:
    """All hosts of a cluster. `silent` maps those that say nothing to the instant, of their own clock, until when."""

    cluster: Cluster
    generator: np.random.Generator
    turn_number: int = 0
    silent: dict[int, float] = field(default_factory=dict)
    completing: set[int] = field(default_factory=set)
    last_to_speak: int = 0
    messages: int = 0
    refused: int = 0

    def turn(self, *, completions: int, seconds: float) -> None:
        """Speak: the heartbeats of this turn, and as much news as there is time for.

        Args:
            completions: how many running workloads end by themselves from now on, whichever chance picks.
            seconds: how long to go on; news that is left waits for the next turn.
        """
        until = time.monotonic() + seconds
        for host in [host for host, silent_until in self.silent.items() if silent_until <= time.monotonic()]:
            del self.silent[host]
        transact(self._heartbeats)
        self.turn_number += 1
        if completions:
            self.completing |= self._picked(completions)
        for host, leases in self._news():
            self._speak(host, leases)
            self.last_to_speak = host
            if time.monotonic() > until:
                return

    def fall_silent(self, hosts: Sequence[int], *, seconds: float) -> None:
        """Let hosts say nothing for a while."""
        self.silent |= dict.fromkeys(hosts, time.monotonic() + seconds)

    def _heartbeats(self, outbox: Outbox) -> None:
        now = outbox.now()
        with connection.cursor() as cursor:
            cursor.execute(
                _HEARTBEATS,
                {
                    "now": now,
                    "cluster": self.cluster.pk,
                    "turns": TURNS,
                    "turn": self.turn_number % TURNS,
                    "silent": list(self.silent),
                },
            )
            hosts = [row[0] for row in cursor.fetchall()]
            expires_at = now + timedelta(seconds=settings.LEASE_TTL_SECONDS)
            cursor.execute(_RENEWALS, {"now": now, "expires_at": expires_at, "hosts": hosts})

    def _picked(self, count: int) -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute(_RUNNING, [self.cluster.pk, int(self.generator.integers(0, 2**62)), count])
            return {row[0] for row in cursor.fetchall()}

    def _news(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Hosts that have something to say, each with all its leases, beginning behind the last that spoke."""
        with connection.cursor() as cursor:
            cursor.execute(
                _NEWS,
                {"cluster": self.cluster.pk, "silent": list(self.silent), "completing": list(self.completing)},
            )
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        self.completing &= {row["lease"] for row in rows if row["completes"]}
        rows.sort(key=lambda row: row["host"] <= self.last_to_speak)
        return [(host, list(leases)) for host, leases in groupby(rows, key=lambda row: row["host"])]

    def _speak(self, host: int, rows: Sequence[dict[str, Any]]) -> None:
        """One message of one host: what it sees of its leases, and what it reports of them."""
        leases = [row for row in rows if row["lease"] is not None]
        numbered = iter(range(rows[0]["last_report"] + 1, 2**62))
        reports = [
            Report(id=next(numbered), lease=row["public_id"], fence=row["fence"], kind=kind, body=body)
            for row in leases
            for kind, body in _reports(row, rows[0]["last_sequence"] + 1)
        ]
        message = sync.Message(
            sequence=rows[0]["last_sequence"] + 1,
            healthy={},
            observed=[sync.Observed(row["public_id"], row["fence"], _observed(row)) for row in leases],
            reports=reports,
        )
        try:
            answer = transact(partial(_sync, host, message))
        except (Refused, Host.DoesNotExist):
            self.refused += 1
            return
        self.messages += 1
        self.refused += len(answer.refused)


def _sync(host: int, message: sync.Message, outbox: Outbox) -> sync.Answer:
    return sync.sync(host, message, outbox=outbox)


def _observed(row: dict[str, Any]) -> str:
    if row["state"] == "closing":
        return "ended"
    return "running" if row["is_primary"] else "standby"


def _reports(row: dict[str, Any], number: int) -> list[tuple[str, dict[str, Any]]]:
    """What a workload has to report, in its order."""
    if row["state"] == "closing":
        return [_checkpoint(row, number)] if row["ending"] == "save" and row["is_primary"] else []
    if row["completes"]:
        return [("exit", {"reason": "completed", "detail": "", "exit_code": 0})]
    begins: list[tuple[str, dict[str, Any]]] = [("first_step", {})] if row["begins"] else []
    return [*begins, _checkpoint(row, number)] if row["saves"] else begins


def _checkpoint(row: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    """A checkpoint of nothing: nobody will ever read it."""
    body = {
        "sequence": number,
        "uri": f"memory://{row['public_id']}-{number}.tar",
        "sha256": sha256(f"{row['public_id']}-{number}".encode()).hexdigest(),
        "size_bytes": CHECKPOINT_BYTES,
        "progress": min(0.99, row["progress"] + 0.01),
        "step": number,
        "seconds": 0.1,
        "requested": False,
    }
    return "checkpoint", body
