"""The one address that a demo adds to the shop; see `plug.py`."""

import asyncio
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from example_project.demo import plug

LOOKS = 0.1
GIVES_UP = plug.PATIENCE + 10
"""Seconds; a demo that is still telling its story answers when that is over, or not in time."""


@require_POST
async def pull_the_plug(request: HttpRequest) -> HttpResponse:
    """Kill the worker while it charges the order, and say so when that is done. For staff."""
    user = await request.auser()
    if not (user.is_active and user.is_staff):
        return JsonResponse({"code": "permission_denied", "message": "only staff may pull the plug"}, status=403)
    order_id = request.POST.get("order", "")
    if not 0 < len(order_id) <= 200:
        return JsonResponse({"code": "invalid_input", "message": "which order?"}, status=400)
    answer = plug.ask(Path(settings.PLUG_FOLDER), order_id)
    for _ in range(int(GIVES_UP / LOOKS)):
        if (told := plug.read_answer(answer)) is not None:
            return JsonResponse(told)
        await asyncio.sleep(LOOKS)
    return JsonResponse({"code": "unavailable", "message": "nobody pulls the plug just now"}, status=503)
