"""``python -m tests.chaos --seconds 60 --seed 1``: exit code 0 only where every promise held.

The database is the one of RIVET_TEST_DATABASE, behind ``python -m tests.services``; what it is filled with goes away
with it. Redis is one of its own, since others could not work with one that is flushed and paused.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.chaos.settings"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long the fire lasts (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan (default: 1)")
    parser.add_argument("--keep", type=Path, help="an empty folder where ledger and logs are kept")
    options = parser.parse_args(arguments)
    # Else the cleaning up below would be skipped, and servers and databases left over.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    from tests.services import redis_server

    with _folder(options.keep) as folder, redis_server(folder) as broker:
        # Read by the settings of this process, too: it sends hints.
        os.environ["REDIS_URL"] = broker
        import django

        django.setup()
        from tests.chaos.battle import battle

        said, code = battle(options.seed, options.seconds, folder, broker)
        sys.stdout.write(said)
        return code


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="rivet-chaos-", dir=os.environ.get("RIVET_TEST_DIR")) as name:
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
