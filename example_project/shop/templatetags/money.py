"""Amounts as people read them."""

from django import template

register = template.Library()


@register.filter
def cents(amount: int) -> str:
    """``-2500`` is ``-25.00``."""
    return f"{amount / 100:.2f}"
