"""Coming in and going: sign-up where it is open, invitations that work once, members with an owner among them."""

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client

from laissez.errors import Conflict, NotFound
from laissez.events import transact
from laissez.models import AuditEntry
from tenants.models import Attempt, Invitation, Member, Tenant
from tenants.services import people
from tenants.views import joining
from tests.accounts.test_people import PASSWORD, a_member
from tests.racing import race
from tests.tenancy import ACTOR, a_tenant

CODE = re.compile(r"lz_invite_[0-9A-Za-z]{36}")
NEW = {"username": "nina", "password": PASSWORD, "again": PASSWORD}
HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}"


def invited(tenant: Tenant | None, role: str = "engineer", note: str = "") -> str:
    return transact(lambda outbox: people.invite(tenant, role=role, note=note, actor=ACTOR, outbox=outbox))[1]


def page_of(answer: HttpResponse) -> str:
    return answer.content.decode()


@pytest.mark.django_db
class TestSigningUp:
    """Where LAISSEZ_SIGNUP says so."""

    def test_an_open_door_makes_user_tenant_and_membership_at_once(self, client: Client, settings: Any) -> None:
        settings.SIGNUP = "open"
        assert "/signup" in page_of(client.get("/login/"))
        assert client.post("/signup", NEW | {"tenant_name": "Nimbus"}).status_code == 302
        member = Member.objects.get()
        assert (member.user.username, member.tenant.name, member.role) == ("nina", "Nimbus", "owner")
        assert client.get("/api/v1/balance").json()["balance"] == "0.000000"
        actions = AuditEntry.objects.order_by("id").values_list("action", "actor")
        assert list(actions) == [("tenant.create", "user nina"), ("member.add", "user nina")]

    @pytest.mark.parametrize("setting", ["invite", "closed"])
    def test_a_closed_door_says_how_to_come_in(self, client: Client, settings: Any, setting: str) -> None:
        settings.SIGNUP = setting
        assert client.post("/signup", NEW | {"tenant_name": "Nimbus"}).status_code == 404
        assert not User.objects.exists()
        assert "/signup" not in page_of(client.get("/login/"))

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"username": "a b"}, "cannot be used"),
            ({"username": ""}, "cannot be used"),
            ({"username": "a\x00b"}, "cannot be used"),
            ({"username": "x" * 151}, "cannot be used"),
            ({"tenant_name": ""}, "is not a name"),
            ({"tenant_name": "a\nb"}, "is not a name"),
            ({"tenant_name": "Alpha"}, "cannot be used"),
            ({"password": "short", "again": "short"}, "too short"),
            ({"password": "password12", "again": "password12"}, "too common"),
            ({"again": "other"}, "differ"),
        ],
    )
    def test_what_is_wrong_is_told_and_leaves_nothing(
        self, client: Client, settings: Any, change: dict[str, str], says: str
    ) -> None:
        settings.SIGNUP = "open"
        a_tenant()
        answer = client.post("/signup", NEW | {"tenant_name": "Nimbus"} | change)
        assert answer.status_code == 400
        assert says in page_of(answer)
        assert not User.objects.exists()
        assert Tenant.objects.count() == 1

    def test_a_taken_name_is_told_in_the_words_of_an_unusable_one(self, client: Client, settings: Any) -> None:
        settings.SIGNUP = "open"
        a_member(a_tenant())
        told = {}
        for name in ("ann", "a b"):
            page = page_of(client.post("/signup", NEW | {"tenant_name": "Nimbus", "username": name}))
            told[name] = re.sub(r'value="[^"]*"', "", page)
        assert told["ann"] == told["a b"]

    def test_an_address_may_try_twenty_times_an_hour(self, client: Client, settings: Any) -> None:
        settings.SIGNUP = "open"
        bad = NEW | {"tenant_name": "Nimbus", "again": "other"}
        answers = [client.post("/signup", bad).status_code for _ in range(21)]
        assert answers == [400] * 20 + [429]
        Attempt.objects.update(at=Attempt.objects.earliest("at").at - timedelta(hours=2))
        assert client.post("/signup", NEW | {"tenant_name": "Nimbus"}).status_code == 302

    def test_guessing_a_password_is_rationed_by_name_and_address(self, client: Client) -> None:
        a_member(a_tenant())
        wrong = {"username": "ann", "password": "wrong"}
        assert [client.post("/login/", wrong).status_code for _ in range(21)] == [200] * 20 + [429]
        assert client.post("/login/", wrong | {"password": PASSWORD}).status_code == 429
        assert client.post("/login/", wrong | {"username": "ben"}).status_code == 200

    def test_neither_another_spelling_nor_the_admins_door_gives_more_tries(self, client: Client) -> None:
        a_member(a_tenant())
        spellings = ["ann", " ann", "ANN", "\N{FULLWIDTH LATIN SMALL LETTER A}nn"]
        tries = [("/login/", spellings[number % 4]) for number in range(19)] + [("/admin/login/", "ann")] * 2
        answers = [client.post(path, {"username": name, "password": "wrong"}).status_code for path, name in tries]
        assert answers == [200] * 20 + [429]

    def test_an_address_may_not_go_on_guessing_with_ever_new_names(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(joining.FAILING_AT_ALL, "limit", 3)
        a_member(a_tenant())
        good = {"username": "ann", "password": PASSWORD}
        assert [client.post("/login/", good, REMOTE_ADDR="2001:db8::1").status_code for _ in range(4)] == [302] * 4
        answers = [
            client.post("/login/", {"username": f"n{end}", "password": "x"}, REMOTE_ADDR=f"2001:db8::{end}").status_code
            for end in range(4)
        ]
        assert answers == [200] * 3 + [429]
        assert client.post("/login/", good, REMOTE_ADDR="2001:db8:0:1::1").status_code == 302

    def test_the_admin_is_entered_through_the_same_page(self, client: Client) -> None:
        User.objects.create_superuser("root", password=PASSWORD)
        assert client.get("/admin/")["Location"] == "/admin/login/?next=/admin/"
        right = {"username": "root", "password": PASSWORD, "next": "/admin/"}
        assert client.post("/admin/login/?next=/admin/", right)["Location"] == "/admin/"
        assert client.get("/admin/").status_code == 200


@pytest.mark.django_db
class TestInvitations:
    """One person, once."""

    def test_an_owner_invites_and_the_invited_comes_in(self) -> None:
        tenant = a_tenant()
        ann, nina = Client(), Client()
        ann.force_login(a_member(tenant))
        shown = page_of(ann.post("/settings/members/invite", {"role": "engineer", "note": HOSTILE[:24]}))
        (code,) = set(CODE.findall(shown))
        assert f"http://testserver/join/{code}" in shown
        assert not CODE.search(page_of(ann.get("/settings/members")))
        assert code not in str([*Invitation.objects.values(), *AuditEntry.objects.values()])
        assert "Join <bdi>Alpha</bdi>" in page_of(nina.get(f"/join/{code}"))
        assert nina.post(f"/join/{code}", NEW).status_code == 302
        member = Member.objects.get(user__username="nina")
        assert (member.tenant, member.role) == (tenant, "engineer")
        assert nina.get("/api/v1/balance").status_code == 200
        assert Client().get(f"/join/{code}").status_code == 404

    def test_an_operator_invites_somebody_to_found_a_tenant(self, client: Client) -> None:
        out = StringIO()
        call_command("invite", "--note", "Nina", "--url", "https://example.org/", stdout=out)
        address = out.getvalue().strip()
        assert address.startswith("https://example.org/join/lz_invite_")
        path = address.removeprefix("https://example.org")
        assert client.post(path, NEW | {"tenant_name": "Nimbus"}).status_code == 302
        assert (Member.objects.get().tenant.name, Member.objects.get().role) == ("Nimbus", "owner")
        with pytest.raises(CommandError, match="no such tenant"):
            call_command("invite", "Nobody")

    def test_somebody_with_a_login_joins_with_it_and_switches_between_tenants(self, client: Client) -> None:
        first, second = a_tenant(microdollars=1), a_tenant("Beta", microdollars=2)
        client.force_login(a_member(first))
        assert client.post(f"/join/{invited(second)}").status_code == 302
        assert client.get("/api/v1/balance").json()["balance"] == "0.000002"
        page = page_of(client.get("/settings/members"))
        assert "Acting for" in page
        target = {"tenant": first.public_id, "next": "/jobs"}
        assert client.post("/settings/tenant", target)["Location"] == "/jobs"
        assert client.get("/api/v1/balance").json()["balance"] == "0.000001"
        client.post("/settings/tenant", {"tenant": a_tenant("Gamma").public_id, "next": "https://elsewhere.example/"})
        assert client.get("/api/v1/balance").json()["balance"] == "0.000001"
        stale = client.post("/settings/members/invite", {"role": "viewer", "acting_for": second.public_id})
        assert (stale.status_code, "you act for Alpha now" in page_of(stale)) == (409, True)
        again = client.post(f"/join/{invited(second)}")
        assert (again.status_code, "member of Beta already" in page_of(again)) == (409, True)

    @pytest.mark.parametrize("case", ["unknown", "malformed", "used", "withdrawn", "expired"])
    def test_an_invitation_that_is_no_good_is_told_in_the_same_words(self, client: Client, case: str) -> None:
        tenant = a_tenant()
        good = invited(tenant)
        row = Invitation.objects.get()
        changes: dict[str, dict[str, Any]] = {
            "used": {"used_at": row.created_at},
            "withdrawn": {"withdrawn_at": row.created_at},
            "expired": {"created_at": row.created_at - timedelta(days=9), "expires_at": row.created_at},
        }
        if case in changes:
            Invitation.objects.update(**changes[case])
        code = {"unknown": "lz_invite_" + "0" * 36, "malformed": "hello"}.get(case, good)
        answers = [client.get(f"/join/{code}"), client.post(f"/join/{code}", NEW)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert all("was used, withdrawn or has expired" in page_of(answer) for answer in answers)
        assert not User.objects.exists()

    def test_a_bad_password_leaves_the_invitation_good(self, client: Client) -> None:
        code = invited(a_tenant())
        assert client.post(f"/join/{code}", NEW | {"password": "short", "again": "short"}).status_code == 400
        assert client.post(f"/join/{code}", NEW).status_code == 302

    def test_an_owner_withdraws_an_invitation_and_others_cannot(self) -> None:
        tenant = a_tenant()
        code = invited(tenant, note=HOSTILE[:-1])
        row = Invitation.objects.get()
        ann, eve = Client(), Client()
        ann.force_login(a_member(tenant))
        eve.force_login(a_member(a_tenant("Beta"), "eve"))
        page = page_of(ann.get("/settings/members"))
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert eve.post(f"/settings/invitations/{row.public_id}/withdraw").status_code == 404
        assert ann.post(f"/settings/invitations/{row.public_id}/withdraw").status_code == 302
        assert Client().get(f"/join/{code}").status_code == 404


@pytest.mark.django_db
class TestMembers:
    """Who may act, and for how long."""

    def test_an_owner_changes_roles_and_removes_at_once(self) -> None:
        tenant = a_tenant()
        ann, ben = Client(), Client()
        ann.force_login(a_member(tenant))
        user = a_member(tenant, "ben", Member.Role.ENGINEER)
        ben.force_login(user)
        member = Member.objects.get(user=user)
        assert ben.get("/settings/tokens").status_code == 200
        ann.post(f"/settings/members/{member.pk}/role", {"role": "finance"})
        assert ben.get("/settings/tokens").status_code == 403
        assert ann.post(f"/settings/members/{member.pk}/role", {"role": "king"}).status_code == 400
        ann.post(f"/settings/members/{member.pk}/remove")
        assert ben.get("/settings/members").status_code == 403
        assert User.objects.filter(pk=user.pk).exists()
        actions = (
            AuditEntry.objects.filter(action__startswith="member.").order_by("id").values_list("action", flat=True)
        )
        assert list(actions)[-2:] == ["member.change_role", "member.remove"]

    @pytest.mark.parametrize("act", ["role", "remove"])
    def test_whoever_is_no_owner_any_more_has_left_no_way_back(self, act: str) -> None:
        tenant = a_tenant()
        ann, ben = Client(), Client()
        ann.force_login(a_member(tenant))
        ben.force_login(a_member(tenant, "ben"))
        code = CODE.search(page_of(ben.post("/settings/members/invite", {"role": "owner"})))
        others = CODE.search(page_of(ann.post("/settings/members/invite", {"role": "viewer"})))
        assert code
        assert others
        pk = Member.objects.get(user__username="ben").pk
        assert ann.post(f"/settings/members/{pk}/{act}", {"role": "viewer"}).status_code == 302
        assert Client().get(f"/join/{code[0]}").status_code == 404
        assert Client().get(f"/join/{others[0]}").status_code == 200

    def test_the_last_owner_stays_an_owner(self) -> None:
        tenant = a_tenant()
        ann = Client()
        ann.force_login(a_member(tenant))
        own = Member.objects.get()
        for path, data in (("role", {"role": "viewer"}), ("remove", {})):
            answer = ann.post(f"/settings/members/{own.pk}/{path}", data)
            assert (answer.status_code, "the last owner" in page_of(answer)) == (409, True)
        assert Member.objects.get().role == "owner"

    def test_only_owners_manage_and_only_their_own(self) -> None:
        tenant = a_tenant()
        owner = Member.objects.get(user=a_member(tenant))
        ben, eve = Client(), Client()
        ben.force_login(a_member(tenant, "ben", Member.Role.ENGINEER))
        eve.force_login(a_member(a_tenant("Beta"), "eve"))
        assert "Invite somebody" not in page_of(ben.get("/settings/members"))
        for client, status in ((ben, 403), (eve, 404)):
            assert client.post(f"/settings/members/{owner.pk}/role", {"role": "viewer"}).status_code == status
            assert client.post(f"/settings/members/{owner.pk}/remove").status_code == status
        assert ben.post("/settings/members/invite", {"role": "owner"}).status_code == 403

    def test_a_password_is_changed_against_the_present_one(self) -> None:
        ann = Client()
        user = a_member(a_tenant())
        ann.force_login(user)
        new = {"new_password1": "another-horse-10", "new_password2": "another-horse-10"}
        assert ann.post("/settings/password", {"old_password": "wrong", **new}).status_code == 200
        assert ann.post("/settings/password", {"old_password": PASSWORD, **new}).status_code == 302
        user.refresh_from_db()
        assert user.check_password("another-horse-10")
        wrong = [ann.post("/settings/password", {"old_password": "wrong", **new}).status_code for _ in range(21)]
        assert wrong == [200] * 20 + [429]


@pytest.mark.django_db(transaction=True)
class TestRaces:
    """With connections of their own."""

    def test_an_invitation_lets_one_of_two_in(self) -> None:
        code = invited(a_tenant())

        def come_in(number: int) -> Member:
            return transact(
                lambda outbox: people.accept_as_new(code, username=f"nina{number}", password=PASSWORD, outbox=outbox)
            )

        outcomes = race(2, come_in)
        assert sum(isinstance(outcome, NotFound) for outcome in outcomes) == 1
        assert Member.objects.count() == User.objects.count() == 1

    def test_two_owners_who_remove_each_other_leave_one(self) -> None:
        tenant = a_tenant()
        a_member(tenant)
        a_member(tenant, "ben")
        members = list(Member.objects.order_by("pk"))

        def remove(number: int) -> str:
            other = members[1 - number].pk
            return transact(lambda outbox: people.remove(tenant, member_id=other, actor=ACTOR, outbox=outbox))

        outcomes = race(2, remove)
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
        assert Member.objects.get().role == Member.Role.OWNER
