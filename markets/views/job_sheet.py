"""What the job form shows for a draft: every field with its value and fault, the costs, the job in other words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from laissez.errors import Fault
from laissez.sdk.policies import POLICIES
from markets.selectors import exchange
from markets.services.bids import MAX_ROWS
from markets.views import job_costs, job_draft, job_written
from markets.views.job_draft import Draft, Row
from tenants import selectors
from tenants.models import Tenant
from workers.models import Artifact, Cluster, Job
from workers.services import artifacts, specs

EVERY_FIELD = "*"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a submission of the draft would say: its faults, or the micro-dollars that it would set aside."""

    faults: Sequence[Fault]
    hold: int | None = None


@dataclass(frozen=True, slots=True)
class Market:
    """The cluster that the job is for, with its exchange, and the others there are."""

    clusters: Sequence[Cluster]
    table: exchange.Exchange | None
    now: datetime

    @classmethod
    def of(cls, slug: str, now: datetime) -> "Market":
        """The cluster of that name, else the first."""
        clusters = list(Cluster.objects.order_by("slug"))
        found = next((cluster for cluster in clusters if cluster.slug == slug), next(iter(clusters), None))
        return cls(clusters, None if found is None else exchange.of(found, now=now), now)

    @property
    def slug(self) -> str:
        """Its name."""
        return "" if self.table is None else self.table.cluster.slug

    @property
    def types(self) -> list[str]:
        """The accelerator types that may be bid for."""
        return [] if self.table is None else [row.type.slug for row in self.table.rows]

    def expected(self, row: Row) -> int | None:
        """What a row is expected to cost now, in micro-dollars."""
        return job_costs.expected(row, self.table)


@dataclass(frozen=True, slots=True)
class Shown:
    """A field on the page."""

    name: str
    value: str
    faults: Sequence[str]

    @property
    def id(self) -> str:
        """Where links lead to."""
        return f"f-{self.name}"


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of the launch table on the page."""

    place: int
    fields: dict[str, Shown]
    artifact: Artifact | None
    cost: job_costs.RowCost
    is_first: bool
    is_last: bool

    @property
    def has_own(self) -> bool:
        """Whether it brings files or a command of its own, or is wrong about them."""
        own = (self.fields["command"], self.fields["artifact"])
        return any(each.value or each.faults for each in own)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A draft on its way to the page.

    `touched` names the fields whose faults are shown; `focus` is the id to go on from, `said` what is read out loud.
    """

    draft: Draft
    market: Market
    key: str
    touched: str = ""
    focus: str = ""
    said: str = ""
    checked: Checked | None = None
    is_rejected: bool = False
    _artifacts: dict[str, Artifact | None] = field(default_factory=dict)

    def context(self, tenant: Tenant, checked: Checked, *, server: str) -> dict[str, Any]:
        """Everything that the templates show."""
        found = job_draft.by_field(checked.faults, self.draft)
        body = self.draft.body()
        costs = job_costs.of(self.draft, self.market.table, now=self.market.now)
        told = found if self.touched == EVERY_FIELD else {name: found[name] for name in found if name in self._seen()}
        return {
            "sheet": self,
            "now": self.market.now,
            "fields": {name.replace("-", "_"): self._shown(name, told) for name in job_draft.FIELDS},
            "rows": self._rows(tenant, told, costs),
            "rows_faults": told.get("rows", []),
            "artifact": _artifact(tenant, self.draft.value("artifact")),
            "summary": list(_summary(told)) if self.is_rejected else [],
            "costs": costs,
            "hold": checked.hold,
            "unready": sum(map(len, found.values())),
            "unready_now": found.get("", []),
            "available": selectors.available(tenant),
            "table": self.market.table,
            "types": self.market.types,
            "clusters": self.market.clusters,
            "policies": {name: _first_sentence(policy.__doc__) for name, policy in POLICIES.items()},
            "defaults": specs.DEFAULTS,
            "upgrades": Job.Upgrade.values,
            "modes": Job.MigrationMode.values,
            "may_add": len(self.draft.rows) < MAX_ROWS,
            "most_rows": MAX_ROWS,
            "most_mebibytes": artifacts.MAX_BYTES // 1024**2,
            "as_yaml": job_written.as_yaml(body),
            "as_command": job_written.as_command(),
            "as_request": job_written.as_request(body, server=server),
        }

    def _seen(self) -> set[str]:
        return set(self.touched.split())

    def _shown(self, name: str, faults: dict[str, list[str]]) -> Shown:
        return Shown(name, self.draft.value(name), faults.get(name, []))

    def _rows(self, tenant: Tenant, faults: dict[str, list[str]], costs: job_costs.Costs) -> list[ShownRow]:
        last = len(self.draft.rows) - 1
        return [
            ShownRow(
                place=place,
                fields={
                    name.replace("-", "_"): self._shown(f"rows-{place}-{name}", faults) for name in job_draft.ROW_FIELDS
                },
                artifact=_artifact(tenant, row.get("artifact", "")),
                cost=costs.rows[place],
                is_first=place == 0,
                is_last=place == last,
            )
            for place, row in enumerate(self.draft.rows)
        ]


def _artifact(tenant: Tenant, public_id: str) -> Artifact | None:
    return artifacts.of_tenant(tenant, public_id) if public_id.isalnum() or public_id.isidentifier() else None


def _summary(found: dict[str, list[str]]) -> Iterable[tuple[str, str]]:
    """Each fault with the id of its field, the whole job's first."""
    for name, faults in sorted(found.items(), key=lambda item: item[0] != ""):
        for fault in faults:
            yield (f"f-{name}" if name else "", fault)


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]
