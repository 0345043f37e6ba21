"""Statuses, times and durations in words."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext, ngettext

from django_rivet.admin.text import visible

_TONES = {
    "completed": "success",
    "failed": "error",
    "rollback_failed": "error",
    "diverged": "error",
    "rolling_back": "warning",
    "retrying": "warning",
    "paused": "warning",
    "cancelled": "warning",
    "owed": "warning",
    "skipped": "warning",
    "confirmed": "success",
}


def tone(status: str) -> str:
    """Which of the admin's message colours goes with a status; the status itself is always said in words."""
    return _TONES.get(status, "plain")


def badge(status: str, word: str) -> SafeString:
    return format_html('<span class="rivet-status rivet-{}">{}</span>', tone(status), word)


def exact(moment: datetime) -> SafeString:
    """A point in time to the second, in the current time zone."""
    local = timezone.localtime(moment)
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), date_format(local, "Y-m-d H:i:s"))


def clock(moment: datetime) -> SafeString:
    """The time of day to the second; the date is in its title."""
    local = timezone.localtime(moment)
    words = date_format(local, "H:i:s")
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), _full(local), words)


def relative(moment: datetime, now: datetime) -> SafeString:
    """``3 minutes ago``; the exact time is in its title."""
    local = timezone.localtime(moment)
    if moment > now:
        words = gettext("in %(time)s") % {"time": timeuntil(moment, now, depth=1)}
    elif now - moment < timedelta(minutes=1):
        words = gettext("just now")
    else:
        words = gettext("%(time)s ago") % {"time": timesince(moment, now, depth=1)}
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), _full(local), words)


def age(moment: datetime, now: datetime) -> SafeString:
    """``3 minutes``; the exact time is in its title."""
    local = timezone.localtime(moment)
    # Django keeps number and unit together; the list's last column has to be able to wrap.
    words = timesince(moment, now, depth=1).replace("\xa0", " ")
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), _full(local), words)


def duration(start: datetime | None, end: datetime | None) -> str:
    if start is None or end is None:
        return ""
    lasted = (end - start).total_seconds()
    return seconds(lasted) if lasted >= 0.001 else ""


def seconds(number: float) -> str:
    """``340 ms``, ``2.5 s`` or ``1:02:03``."""
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 60:
        return f"{number:.1f} s"
    return str(timedelta(seconds=round(number)))


def type_name(name: str) -> SafeString:
    """A long one may wrap behind the label of its app."""
    return format_html_join(mark_safe(".<wbr>"), "{}", ((part,) for part in visible(name).split(".")))


def attempts(count: int) -> str:
    return ngettext("%(count)d attempt", "%(count)d attempts", count) % {"count": count} if count else ""


# Private -----------------------------------------------------------------------------------------


def _full(local: datetime) -> str:
    return date_format(local, "Y-m-d H:i:s e")
