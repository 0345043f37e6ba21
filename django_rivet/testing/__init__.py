"""Drive actors in a test: no broker, no worker, no waiting.

The pytest plugin's fixture ``rivet`` has the same names as methods, and puts the clock back after each test.
Nothing inside django_rivet imports this package.
"""

from django_rivet.testing.clock import advance, now, reset_clock
from django_rivet.testing.commits import SimulatedCrash, count_commits, crash_at
from django_rivet.testing.driving import drive, serving
from django_rivet.testing.isolation import isolated_actors

__all__ = [
    "SimulatedCrash",
    "advance",
    "count_commits",
    "crash_at",
    "drive",
    "isolated_actors",
    "now",
    "reset_clock",
    "serving",
]
