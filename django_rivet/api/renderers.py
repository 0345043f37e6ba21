"""JSON out."""

from __future__ import annotations

from rest_framework.renderers import JSONRenderer


class StrictJSONRenderer(JSONRenderer):
    """Never writes NaN or Infinity, whatever the project's ``STRICT_JSON`` says: browsers cannot read them."""

    strict = True
    ensure_ascii = False
