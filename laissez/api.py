"""The shape of every HTTP answer that is not a page: problems (RFC 9457), pages of lists, request ids, dry runs.

`problem_handler` serves REST framework, the `handle_*` functions serve what never reaches a view. A problem is
`{type, code, title, status, detail, errors: [{pointer, code, detail}], request_id}`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from http import HTTPStatus
from operator import or_
from typing import Any, Generic, TypeVar

from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db.models import Field, Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from rest_framework.exceptions import APIException
from rest_framework.exceptions import ValidationError as InvalidBody
from rest_framework.views import set_rollback

from laissez.errors import Fault, Refused
from laissez.ids import new_id

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Model)
PROBLEM_TYPE = "application/problem+json"
API_PREFIX = "/api/"
NEEDS_NOTHING = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
DEFAULT_LIMIT = 50
MAX_LIMIT = 200


class RequestIdMiddleware(MiddlewareMixin):
    """Names every request, so that an error page, an answer's header and a log line can be put together."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Draw the id before anything can fail. An address with a NUL, which no database can look for, is nowhere."""
        request.request_id = new_id("req")  # type: ignore[attr-defined]
        return handle_not_found(request, Http404()) if "\x00" in request.path_info else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Tell it to the client, and what no answer of ours needs; what the API says is kept by nobody between."""
        response["X-Request-ID"] = request_id(request)
        response["Permissions-Policy"] = NEEDS_NOTHING
        if request.path_info.startswith(API_PREFIX):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response


def request_id(request: HttpRequest) -> str:
    """The id that the middleware gave to a request; a fresh one where it did not run."""
    found: str | None = getattr(request, "request_id", None)
    return found or new_id("req")


# Problems


def problem(
    request: HttpRequest,
    *,
    status: int,
    code: str,
    detail: str,
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> JsonResponse:
    """An answer that says what is wrong, where, and under which request id; `members` are its kind's own."""
    listed = faults or [Fault(code=code, detail=detail)]
    body = {
        "type": f"urn:laissez:problem:{code}",
        "code": code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [{"pointer": fault.pointer, "code": fault.code, "detail": fault.detail} for fault in listed],
        "request_id": request_id(request),
        **(members or {}),
    }
    return JsonResponse(body, status=status, headers=headers, content_type=PROBLEM_TYPE)


def problem_handler(error: Exception, context: Mapping[str, Any]) -> HttpResponseBase | None:
    """REST framework's exception handler. What it does not know goes on to Django, which logs it and answers 500."""
    request: HttpRequest = context["request"]
    answer = _known_problem(error, getattr(request, "_request", request))
    if answer is not None:
        set_rollback()
    return answer


def _known_problem(error: Exception, request: HttpRequest) -> JsonResponse | None:
    match error:
        case Refused():
            return refusal(request, error)
        case InvalidBody():
            faults = list(_faults(error.detail, error.get_codes(), ""))
            detail = faults[0].detail if len(faults) == 1 else f"The request has {len(faults)} faults."
            return problem(request, status=error.status_code, code="invalid", detail=detail, faults=faults)
        case APIException():
            return problem(
                request,
                status=error.status_code,
                code=_one_code(error),
                detail=str(error.detail),
                headers=_headers(error),
            )
        case Http404():
            return problem(request, status=404, code="not_found", detail="There is no such thing here.")
        case PermissionDenied():
            return problem(request, status=403, code="permission_denied", detail="This is not allowed to you.")
        case _:
            return None


def refusal(request: HttpRequest, error: Refused) -> JsonResponse:
    """The answer for a refusal by a service."""
    return problem(request, status=error.status, code=error.code, detail=error.detail, faults=error.faults)


def _one_code(error: APIException) -> str:
    codes = error.get_codes()
    return codes if isinstance(codes, str) else error.default_code


def _headers(error: APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return headers


def _faults(detail: Any, codes: Any, pointer: str) -> Sequence[Fault]:
    """REST framework's nested error details as a flat list with JSON pointers."""
    if isinstance(detail, Mapping):
        parts = [
            _faults(inner, codes[key], pointer if key == "non_field_errors" else f"{pointer}/{_escaped(str(key))}")
            for key, inner in detail.items()
        ]
    elif isinstance(detail, list):
        parts = [
            _faults(inner, code, f"{pointer}/{index}" if isinstance(inner, Mapping | list) else pointer)
            for index, (inner, code) in enumerate(zip(detail, codes, strict=True))
        ]
    else:
        return [Fault(code=str(codes), detail=str(detail), pointer=pointer)]
    return [fault for part in parts for fault in part]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# Requests that never reach a view


def handle_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400."""
    return _outside(request, status=400, code="bad_request", detail="The request could not be understood.")


def handle_forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler403."""
    return _outside(request, status=403, code="permission_denied", detail="This is not allowed to you.")


def handle_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404."""
    return _outside(request, status=404, code="not_found", detail="There is no such thing here.")


def handle_server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500. The failure itself is in the log under the same request id."""
    logger.error("Request %s %s %s failed", request_id(request), request.method, request.path)
    return _outside(
        request,
        status=500,
        code="server_error",
        detail="Something broke on our side. Nothing was half done; try again.",
    )


def _outside(request: HttpRequest, *, status: int, code: str, detail: str) -> HttpResponse:
    if request.path.startswith(API_PREFIX):
        return problem(request, status=status, code=code, detail=detail)
    context = {"title": HTTPStatus(status).phrase, "detail": detail, "request_id": request_id(request)}
    return HttpResponse(render_to_string("problem.html", context, request=request), status=status)


# Lists


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """A stretch of a list, and the cursor of what follows it."""

    items: list[M]
    next_cursor: str | None

    def as_json(self, items: Sequence[Any]) -> dict[str, Any]:
        """The body of a list's answer; `items` are this page's, rendered in their order."""
        return {
            "items": items,
            "next_cursor": self.next_cursor,
            "has_more": self.next_cursor is not None,
        }


def page_of(queryset: QuerySet[M], query: Mapping[str, str], *, order: Sequence[str] = ("-id",)) -> Page[M]:
    """The page that `?cursor=` and `?limit=` ask for, by keyset: rows that come or go meanwhile shift nothing.

    `order` names not-null fields, the last of them unique, a minus before those that descend.
    """
    limit = _limit(query.get("limit"))
    seal = f"{queryset.model._meta.label} {' '.join(order)}"
    if cursor := query.get("cursor"):
        queryset = queryset.filter(_after(queryset.model, order, _opened(cursor, seal)))
    rows = list(queryset.order_by(*order)[: limit + 1])
    items = rows[:limit]
    return Page(items, _sealed(items[-1], order, seal) if len(rows) > limit else None)


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MAX_LIMIT):
        raise Refused("bad_limit", f"limit={text[:40]!r} is not a whole number from 1 to {MAX_LIMIT}.")
    return int(text)


def _after(model: type[Model], order: Sequence[str], values: Sequence[str]) -> Q:
    """Rows beyond the given values: past them in the first field, or equal there and past them in the second, ..."""
    equal = Q()
    alternatives = []
    for name, text in zip(order, values, strict=True):
        field = name.removeprefix("-")
        value = _field(model, name).to_python(text)
        alternatives.append(equal & Q(**{f"{field}__{'lt' if name.startswith('-') else 'gt'}": value}))
        equal &= Q(**{field: value})
    return reduce(or_, alternatives)


def _field(model: type[Model], name: str) -> "Field[Any, Any]":
    field = model._meta.get_field(name.removeprefix("-"))
    if not isinstance(field, Field):
        raise TypeError(f"{field} is not a column to order by")
    return field


def _sealed(row: Model, order: Sequence[str], seal: str) -> str:
    """A cursor: where a row stands in the order, signed for this list, so that only our own ever reach a query."""
    return signing.dumps([_field(type(row), name).value_to_string(row) for name in order], salt=seal)


def _opened(cursor: str, seal: str) -> list[str]:
    try:
        values: list[str] = signing.loads(cursor, salt=seal)
    except signing.BadSignature:
        raise Refused(
            "bad_cursor", "The cursor is not one that this list gave out. Leave it out to begin at the top."
        ) from None
    return values


# Dry runs


def is_dry_run(query: Mapping[str, str]) -> bool:
    """Whether `?dry_run=true` asks to show the effect without keeping it; see `events.rehearse`."""
    value = query.get("dry_run", "false")
    if value not in {"true", "false"}:
        raise Refused("bad_dry_run", f"dry_run={value[:40]!r} is neither true nor false.")
    return value == "true"
