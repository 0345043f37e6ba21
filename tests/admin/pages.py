"""The admin's pages as a reader sees them."""

from html.parser import HTMLParser
from typing import Any

from django.test import Client
from django.urls import reverse

from django_rivet.runtime.handles import Handle

LIST = reverse("admin:django_rivet_actor_changelist")
OVERVIEW = reverse("admin:django_rivet_actor_overview")


def url(actor: Any, operation: str = "change") -> str:
    """``actor``: a handle, or an instance id."""
    return reverse(f"admin:django_rivet_actor_{operation}", args=[actor.id if isinstance(actor, Handle) else actor])


def read(client: Client, address: str, **query: Any) -> str:
    """The HTML of a page that must be there."""
    response = client.get(address, query)
    assert response.status_code == 200, response
    return response.content.decode()


def buttons(html: str) -> list[str]:
    """The operations that an actor's page offers."""
    return _Reader(html).buttons


def hidden(html: str, name: str) -> str:
    """The value of a form's hidden field; empty where there is none."""
    return _Reader(html).hidden.get(name, "")


def links(html: str) -> dict[str, str]:
    """By what they say: where the links of a page lead."""
    return _Reader(html).links


def tree(html: str) -> str:
    """The history that an actor's page draws: indented, two spaces between words, without times."""
    return "\n".join(_Reader(html).tree)


def text(html: str) -> str:
    """What stands between the tags, with single spaces."""
    return " ".join(_Reader(html).text.split())


class _Reader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.tree: list[str] = []
        self.buttons: list[str] = []
        self.hidden: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self._link: tuple[str, str] | None = None
        self._depth = -1
        self._line: list[str] | None = None
        self._quiet = 0
        self._button = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "ul" and (self._depth >= 0 or "rivet-tree" in classes):
            self._depth += 1
        elif self._depth >= 0 and ("rivet-line" in classes or (tag == "p" and "rivet-message" in classes)):
            self._line = []
        elif self._line is not None and tag == "span" and ("rivet-when" in classes or self._quiet):
            self._quiet += 1
        self._button = tag == "a" and "button" in classes
        if tag == "a":
            self._link = (dict(attrs).get("href") or "", "")
        if tag == "input" and dict(attrs).get("type") == "hidden":
            self.hidden[dict(attrs)["name"] or ""] = dict(attrs).get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._link is not None:
            address, words = self._link
            self.links[" ".join(words.split())] = address
            self._link = None
        if tag == "ul" and self._depth >= 0:
            self._depth -= 1
        elif tag == "span" and self._quiet:
            self._quiet -= 1
        elif self._line is not None and tag in ("div", "summary", "p"):
            self.tree.append("  " * self._depth + "  ".join(self._line))
            self._line = None

    def handle_data(self, data: str) -> None:
        self.text += data + " "
        if self._link is not None:
            self._link = (self._link[0], f"{self._link[1]} {data}")
        if self._line is not None and not self._quiet and data.strip():
            self._line.append(data.strip())
        if self._button and data.strip():
            self.buttons.append(data.strip())
            self._button = False
