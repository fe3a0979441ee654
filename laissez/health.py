"""For those who watch the processes: is this one alive, and can it do its work."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse


def alive(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "alive"})


def ready(request: HttpRequest) -> JsonResponse:
    """The database answers too; 503 otherwise."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return JsonResponse({"status": "no database", "detail": type(error).__name__}, status=503)
    return JsonResponse({"status": "ready"})
