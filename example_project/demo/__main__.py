"""The shop with a web process and a worker: three orders, one of them through a kill -9 of its worker."""

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import django
from rich.console import Console

from example_project.demo.processes import PROJECT, DemoError

MARK = ".rivet-demo"
"""Stands in a folder that a demo has made, and may make anew."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the orders; exit 0 if each went as it should")
    options = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with _fresh_folder(Path(os.environ.get("RIVET_DEMO_DIR") or PROJECT / "var" / "demo").resolve()) as folder:
            _set_up_django(folder)
            from example_project.demo.run import run  # it needs Django set up

            return run(console, folder, once=options.once)
    except DemoError as error:
        console.print(f"The demo failed. {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130


# Below: how it is done ---------------------------------------------------------------------------


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _fresh_folder(folder: Path) -> Iterator[Path]:
    """An empty folder that this demo alone works in. Only what a demo has made is removed for it."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise DemoError(f"{folder} was not made by a demo, and is not emptied: set RIVET_DEMO_DIR to another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / MARK).open("w") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(f"Another demo runs in {folder}: end that one, or set RIVET_DEMO_DIR.") from None
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != MARK:
                entry.unlink()
        yield folder


def _set_up_django(folder: Path) -> None:
    # For the processes that the demo starts, too.
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.settings"
    os.environ["RIVET_DEMO_DIR"] = str(folder)
    os.environ["RIVET_DEMO_PLUG"] = str(folder / "plug")
    os.environ["PYTHONUNBUFFERED"] = "1"
    django.setup()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
