"""``manage.py rivet_worker``: a Celery worker that drives actors, with the sweeper inside."""

from __future__ import annotations

from typing import Any

from celery import Celery, _state, current_app
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from django_rivet.runtime import embedded, sweeping
from django_rivet.runtime.bell import has_broker
from django_rivet.runtime.celery_tasks import keep_connections

ONE_QUEUE = (
    "With this broker all processes of a prefork pool take their work from one queue behind one lock: if one is killed "
    "while it waits for work, this worker drives nothing more until it is started again. "
    "Use Redis, RabbitMQ or no broker, or --pool threads."
)


class Command(BaseCommand):
    help = "Start a worker that drives actors. Any number of them may run, on any number of machines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-c", "--concurrency", type=int, default=2, help="processes or threads (default: 2)")
        parser.add_argument(
            "-P",
            "--pool",
            default="prefork",
            choices=["prefork", "threads", "solo"],
            help="how actors are driven at the same time (default: prefork, which can stop a body that hangs)",
        )
        parser.add_argument("-Q", "--queues", help="Celery queues to take hints from, separated by commas")
        parser.add_argument("-n", "--hostname", help="name of this worker (default: rivet@<host>)")
        parser.add_argument("-l", "--loglevel", default="INFO", help="(default: INFO)")

    def handle(self, *args: Any, **options: Any) -> None:
        app = celery_app()
        if shares_one_queue(app, options["pool"]):
            self.stderr.write(self.style.WARNING(ONE_QUEUE))
        sweeping.add_to(app)
        keep_connections(app, options["pool"])
        # A connection that the parent opened must not be shared by the children it forks.
        connections.close_all()
        arguments = ["worker", f"--pool={options['pool']}", f"--concurrency={options['concurrency']}"]
        arguments += [f"--loglevel={options['loglevel']}", f"--hostname={options['hostname'] or 'rivet@%h'}"]
        arguments += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        if options["queues"]:
            arguments.append(f"--queues={options['queues']}")
        app.worker_main(arguments)


def celery_app() -> Celery:
    """The project's Celery app; where it has none, one of ours with the ``CELERY_`` settings of the project."""
    if _state.default_app is None:  # type: ignore[attr-defined]  # the stubs leave it out
        ours = Celery("django_rivet")
        ours.config_from_object("django.conf:settings", namespace="CELERY")
        ours.set_default()
    app: Celery = current_app._get_current_object()  # type: ignore[attr-defined]  # a proxy, of which the stubs know nothing
    if not app.conf.broker_url:
        app.conf.update(broker_url="memory://localhost/")
    if not has_broker(app):
        app.conf.update(broker_transport=embedded.NAME)
    app.loader.import_task_module("django_rivet.tasks")
    return app


def shares_one_queue(app: Celery, pool: str) -> bool:
    """Whether Celery lets the pool's processes share a queue, as it does where kombu's transport has no event loop."""
    return pool == "prefork" and not app.connection_for_read().transport.implements.asynchronous
