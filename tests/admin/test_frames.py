"""Tracebacks with the project's own frames in front."""

import pytest

from django_rivet import Actor, workflow
from django_rivet.admin.frames import read_trace
from tests.admin.pages import read, url

STACK = """Traceback (most recent call last):
  File "/srv/shop/actors.py", line 12, in charge
    gateway.charge(order)
  File "/srv/venv/lib/python3.11/site-packages/requests/api.py", line 59, in request
    return session.request(method=method, url=url, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/socket.py", line 851, in create_connection
    raise exceptions[0]
  [Previous line repeated 3 more times]
  File "<frozen importlib._bootstrap>", line 1, in load
TimeoutError: timed out

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/gateway.py", line 7, in charge
    raise GatewayDown from error
shop.gateway.GatewayDown: File "/usr/lib/python3.11/x.py", line 1
"""

OWN = """Traceback (most recent call last):
  File "/srv/shop/actors.py", line 12, in charge
    gateway.charge(order)
TimeoutError: timed out

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/gateway.py", line 7, in charge
    raise GatewayDown from error
shop.gateway.GatewayDown: File "/usr/lib/python3.11/x.py", line 1
"""


def test_frames_of_libraries_are_left_out_and_kept_behind_it():
    """Each error of a chain keeps its name, its message and the project's frames."""
    trace = read_trace(STACK)

    assert trace.own == OWN
    assert trace.whole == STACK
    assert trace.summary == "With 3 frames of libraries"


def test_frames_inside_a_group_of_exceptions_are_told_apart_too():
    """Their lines have a margin."""
    group = """  | Traceback (most recent call last):
  |   File "/srv/venv/lib/python3.11/site-packages/anyio/x.py", line 3, in run
  |     await task
  |   File "/srv/shop/actors.py", line 9, in body
  |     fail()
  | ValueError: no
  +------------------------------------
"""

    own = read_trace(group).own

    assert "anyio" not in own
    assert "await task" not in own
    assert own.count("\n") == group.count("\n") - 2
    assert "shop/actors.py" in own


@pytest.mark.parametrize("stack", ["", "no traceback at all", OWN, "s" * 20_000])
def test_what_has_no_frame_of_a_library_stays_as_it_is(stack):
    """Nothing is folded then."""
    trace = read_trace(stack)

    assert (trace.own, trace.whole) == (stack, "")


def test_windows_writes_paths_in_its_own_way():
    """The worker may have run there."""
    stack = '  File "C:\\\\Python311\\\\Lib\\\\json\\\\decoder.py", line 1, in raw_decode\nValueError: no'

    assert read_trace(stack).own == "ValueError: no"


@pytest.mark.django_db
def test_a_page_shows_the_users_frames_first(operator, rivet):
    """The line in the project stands in front, the library's behind a fold."""
    import json

    class Parser(Actor):
        @workflow
        def run(self, ctx):
            ctx.step("parse", self.parse, max_retries=0)

        def parse(self):
            json.loads("{")

    handle = Parser.create("one")
    rivet.drive(handle)

    html = read(operator, url(handle))

    own, _, folded = html.partition('rivet-name">parse<')[2].partition("frames of libraries")
    assert "in parse" in own
    assert "JSONDecodeError" in own
    assert "raw_decode" not in own
    assert "raw_decode" in folded
