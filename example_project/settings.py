"""Settings of the example: nothing to install on a laptop, two URLs for the real thing.

    (nothing)                       SQLite in var/, no broker, events looked up by polling
    DATABASE_URL=postgresql://...   PostgreSQL
    REDIS_URL=redis://...           Celery's broker and the channel layer

No other setting depends on either.
"""

import os
from pathlib import Path
from typing import Any

import dj_database_url

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("RIVET_DEMO_DIR") or BASE_DIR / "var")
DATA_DIR.mkdir(parents=True, exist_ok=True)

DATABASE_URL = os.environ.get("DATABASE_URL") or f"sqlite:///{DATA_DIR / 'example.sqlite3'}"
REDIS_URL = os.environ.get("REDIS_URL", "")

DEBUG = os.environ.get("DEBUG", "1") == "1"
SECRET_KEY = os.environ.get("SECRET_KEY", "only-for-the-example")
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")

PLUG_FOLDER = os.environ.get("RIVET_DEMO_PLUG", "")
"""Where a demo's supervisor looks for who wants the worker killed; empty everywhere else."""

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "channels",
    "django_rivet",
    "example_project.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "shop"
LOGOUT_REDIRECT_URL = "login"

ROOT_URLCONF = "example_project.urls"
ASGI_APPLICATION = "example_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

STATIC_URL = "static/"
# Served from the apps themselves, so that nobody has to run collectstatic before a demo.
WHITENOISE_USE_FINDERS = True

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Database ----------------------------------------------------------------------------

# Without IMMEDIATE two transactions that read before they write lose one of them to
# "database is locked" at once, whatever the timeout; without WAL readers wait for writers.
SQLITE_OPTIONS: dict[str, Any] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}
# A pool, because an ASGI server's threads come and go and a connection that lives in one
# of them is lost with it. Django's default pool has four connections and never more.
POSTGRES_OPTIONS: dict[str, Any] = {"pool": {"min_size": 1, "max_size": 20, "timeout": 10}}

database: dict[str, Any] = {**dj_database_url.parse(DATABASE_URL, conn_health_checks=True)}
database["OPTIONS"] = {
    **(SQLITE_OPTIONS if database["ENGINE"].endswith("sqlite3") else POSTGRES_OPTIONS),
    **database.get("OPTIONS", {}),
}
DATABASES = {"default": database}

# --- Celery ------------------------------------------------------------------------------

CELERY_BROKER_URL = REDIS_URL or "memory://localhost/"
# The database says what is due and holds every result; a message is only a hint.
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
# A worker outlives its broker, however long that is away.
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A web request that can't ring the bell gives up within seconds: the sweeper will ring it.
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {"socket_connect_timeout": 2, "socket_timeout": 2, "max_retries": 1} if REDIS_URL else {}
)

# --- Channels ----------------------------------------------------------------------------

CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}

# --- The rest ----------------------------------------------------------------------------

REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
SPECTACULAR_SETTINGS = {
    "TITLE": "The example shop",
    "VERSION": "0.1.0",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "django_rivet.api.openapi_types.add_actor_types",
    ],
}

RIVET: dict[str, Any] = {}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "INFO")},
}
