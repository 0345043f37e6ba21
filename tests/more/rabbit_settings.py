"""RabbitMQ is the broker, with Celery's own defaults, and nobody tells clients of events."""

import os

from tests.settings import *  # noqa: F403

CELERY_BROKER_URL = os.environ["RIVET_TEST_RABBITMQ_URL"]
CELERY_BROKER_CONNECTION_TIMEOUT = 4
CELERY_BROKER_TRANSPORT_OPTIONS = {}
