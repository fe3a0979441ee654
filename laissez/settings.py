"""Settings of the control plane, read from the environment; development needs none of it set.

Production sets LAISSEZ_ENV=production and then every secret must be given: there is no default. The tests
set LAISSEZ_ENV=test.
"""

import os
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
STATE_DIR = Path(os.environ.get("LAISSEZ_STATE_DIR", BASE_DIR / ".local"))
ENVIRONMENT = os.environ.get("LAISSEZ_ENV", "development")
if ENVIRONMENT not in {"development", "test", "production"}:
    raise ImproperlyConfigured(f"LAISSEZ_ENV={ENVIRONMENT!r} is none of development, test, production")
PRODUCTION = ENVIRONMENT == "production"
DEBUG = False


def _required(name: str, development: str) -> str:
    """The variable's value; in development a default, in production an error that names it."""
    value = os.environ.get(name)
    if value:
        return value
    if PRODUCTION:
        raise ImproperlyConfigured(f"{name} is not set. Production has no default for it: export {name}=...")
    return development


def _number(name: str, default: float) -> float:
    """A finite positive number from the environment."""
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise ImproperlyConfigured(f"{name}={text!r} is not a positive number. Example: {name}={default:g}")
    return value


def _whole(name: str, default: int) -> int:
    """A whole positive number from the environment."""
    value = _number(name, default)
    if value != int(value):
        raise ImproperlyConfigured(f"{name}={value:g} is not a whole number. Example: {name}={default}")
    return int(value)


def _database(url: str) -> dict[str, Any]:
    """Django's database settings from `postgresql://user:password@host:port/name`, socket folders percent-encoded."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {parts.scheme!r}; only PostgreSQL serves: postgresql://user@host/name"
        )
    options: dict[str, Any] = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = options.pop("host", unquote(parts.hostname or ""))
    # urlsplit lower-cases hostnames; a socket folder keeps its case only in the raw network location.
    raw = parts.netloc.rsplit("@", 1)[-1].rsplit(":", 1)[0] if "%2F" in parts.netloc.upper() else None
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(raw) if raw else host,
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
        "TEST": {"NAME": "test_" + unquote(parts.path.lstrip("/"))},
    }


SECRET_KEY = _required("SECRET_KEY", "development-only-not-a-secret")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "*" if not PRODUCTION else "").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in os.environ.get("CSRF_TRUSTED_ORIGINS", "").split(",") if origin]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "django_htmx",
    "laissez",
    "tenants",
    "workers",
    "markets",
]

MIDDLEWARE = [
    "laissez.api.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "laissez.zones.ZoneMiddleware",
]

ROOT_URLCONF = "laissez.urls"
ASGI_APPLICATION = "laissez.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": _database(_required("DATABASE_URL", "postgresql://laissez@localhost/laissez"))}
if "LAISSEZ_DATABASE_POOL" in os.environ:  # the web process; a pool does not survive the forks of Celery
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": int(_number("LAISSEZ_DATABASE_POOL", 8))}
# Only what asks for it is prepared: see laissez.prepared. None would forbid it, a small number prepares everything.
DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 2**31
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = _required("REDIS_URL", "redis://localhost:6379")


def redis_address(database: int) -> str:
    """The address of one numbered database of the Valkey or Redis server."""
    if REDIS_URL.startswith("unix://"):
        return f"{REDIS_URL}?db={database}"
    return f"{REDIS_URL.rstrip('/')}/{database}"


CELERY_BROKER_URL = redis_address(0)
if CELERY_BROKER_URL.startswith("unix://"):
    CELERY_BROKER_URL = f"redis+socket://{REDIS_URL.removeprefix('unix://')}?virtual_host=0"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis_address(2)}}
# What is published reaches every database of a server: installations that share one need prefixes of their own.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [redis_address(1)], "prefix": os.environ.get("LAISSEZ_CHANNEL_PREFIX", "laissez")},
    }
}

# Market time and liveness. Only the meter and emulated devices run faster than real seconds.
# Where the reconciler asks whether hosts can reach the web process; empty: it takes that for granted.
INTERNAL_URL = os.environ.get("LAISSEZ_INTERNAL_URL", "").rstrip("/")
METER_SPEEDUP = _whole("LAISSEZ_METER_SPEEDUP", 1)
LEASE_TTL_SECONDS = _number("LAISSEZ_LEASE_TTL_SECONDS", 30)
LEASE_GRACE_SECONDS = _number("LAISSEZ_LEASE_GRACE_SECONDS", 5)
CHECKPOINT_STORE_URL = os.environ.get("LAISSEZ_CHECKPOINT_STORE", f"file://{STATE_DIR / 'checkpoints'}")
# Events older than this are purged, an hour at a time; a reader that comes later takes a snapshot.
EVENT_RETENTION_DAYS = _number("LAISSEZ_EVENT_RETENTION_DAYS", 7)
ARTIFACT_DIR = Path(os.environ.get("LAISSEZ_ARTIFACT_DIR", STATE_DIR / "artifacts"))

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["tenants.auth.TokenAuthentication", "tenants.auth.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["laissez.bodies.StrictJSONParser"],
    "EXCEPTION_HANDLER": "laissez.api.problem_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "frame-ancestors": ["'none'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Whether exchange, prices and receipts are seen by who is not signed in. Bids and jobs never are.
PUBLIC_MARKET = os.environ.get("LAISSEZ_PUBLIC_MARKET", "1") not in {"0", "false", "no", "off"}
LOGIN_URL = "/login/"
# Who may come in: anybody (open), who was invited (invite), nobody but through an operator (closed).
SIGNUP = os.environ.get("LAISSEZ_SIGNUP", "invite")
if SIGNUP not in {"open", "invite", "closed"}:
    raise ImproperlyConfigured(f"LAISSEZ_SIGNUP={SIGNUP!r} is none of open, invite, closed")
LOGIN_REDIRECT_URL = "/"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = Path(os.environ.get("LAISSEZ_STATIC_ROOT", STATE_DIR / "static"))
# plotly.min.js is taken from the installed package; `prepare` leaves behind what else lies beside it.
STATICFILES_DIRS = [BASE_DIR / "static", ("plotly", Path(str(files("plotly") / "package_data")))]
# Compressing takes seconds at every start, so that only production does; tests read the files where they lie.
STATIC_STORAGE = {
    "development": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage",
    "test": "django.contrib.staticfiles.storage.StaticFilesStorage",
    "production": "whitenoise.storage.CompressedManifestStaticFilesStorage",
}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": STATIC_STORAGE[ENVIRONMENT]},
}
WHITENOISE_USE_FINDERS = ENVIRONMENT == "test"
WHITENOISE_AUTOREFRESH = False

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
SECURE_CONTENT_TYPE_NOSNIFF = True
# TLS ends at a proxy in front, which redirects and sends HSTS; hosts beside it may speak plain HTTP.
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W008"]
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "filters": {"redaction": {"()": "laissez.credentials.Redaction"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redaction"]}},
    "loggers": {"httpx": {"level": "WARNING"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LAISSEZ_LOG_LEVEL", "INFO")},
}
