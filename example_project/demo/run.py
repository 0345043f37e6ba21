"""From an empty database to the last order, and on until Ctrl-C."""

from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from rich.console import Console

from example_project.demo import evidence
from example_project.demo.api import PASSWORD, USER, Api
from example_project.demo.plug import Plug
from example_project.demo.processes import Processes, listen
from example_project.demo.story import Story

PORT = 8000


def run(console: Console, folder: Path, *, once: bool) -> int:
    """Returns 0 if each order ended as it should, else 1. Whatever ends it, its processes end with it."""
    _prepare_database(console)
    with listen(PORT) as listener:
        api = Api(listener.getsockname()[1])
        processes = Processes(folder, listener)
        plug = Plug(Path(settings.PLUG_FOLDER), processes.worker)
        try:
            processes.wait_until(api.is_there, 60, "the web process answers")
            _print_addresses(console, api.root)
            faults = _play(console, api, processes)
            if not once:
                _serve(console, api.root, processes, plug)
        finally:
            console.print("Stopping the web process and the worker ...")
            processes.stop()
    return 1 if faults else 0


# Below: how it is done ---------------------------------------------------------------------------


def _prepare_database(console: Console) -> None:
    console.print(f"Database: {connection.settings_dict['NAME']} ({connection.vendor})", markup=False)
    call_command("migrate", verbosity=0)
    user, _ = get_user_model().objects.get_or_create(username=USER, defaults={"is_staff": True, "is_superuser": True})
    user.set_password(PASSWORD)
    user.save()


def _play(console: Console, api: Api, processes: Processes) -> list[str]:
    api.make_checkout()
    story = Story(api, processes, console)
    kill = story.run()
    evidence.show(console, story)
    faults = evidence.faults(api, story, kill)
    console.print()
    for fault in faults:
        console.print(fault, style="red", markup=False)
    if not faults:
        console.print("Each order ended as it should.", style="bold green")
    return faults


def _serve(console: Console, root: str, processes: Processes, plug: Plug) -> None:
    _print_addresses(console, root)
    console.print("Ctrl-C ends the demo, and all that it has started.")
    try:
        processes.watch(plug.look)
    except KeyboardInterrupt:
        console.print()


def _print_addresses(console: Console, root: str) -> None:
    console.print()
    console.print(f"  shop    {root}/                       user {USER}, password {PASSWORD}")
    console.print(f"  admin   {root}/admin/                 the same user")
    console.print(f"  API     {root}/api/actors/            its schema: {root}/api/schema/")
