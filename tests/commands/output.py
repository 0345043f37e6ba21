"""What ``rivet_status`` prints."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from django.core.management import call_command


def table(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("rivet_status", *arguments, stdout=out)
    return out.getvalue().splitlines()


def status(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("rivet_status", "--json", *arguments, stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found
