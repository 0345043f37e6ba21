"""The shop's REST API, as any client sees it."""

import json
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from example_project.demo.processes import DemoError

USER, PASSWORD = "demo", "demo"
CHECKOUT = "/api/actors/shop.CheckoutActor/main/"


class Api:
    """Talks to the web process as the staff user, and treats every refusal as a failure of the demo."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self._port = port
        self._cookies: SimpleCookie = SimpleCookie()

    def is_there(self) -> bool:
        try:
            return self._ask("GET", "/admin/login/", None)[0] == 200
        except OSError:
            return False

    def make_checkout(self) -> None:
        self._need("PUT", CHECKOUT, {})

    def order(self, order_id: str, card: str) -> None:
        self._need("POST", f"{CHECKOUT}queues/orders/", {"body": {"id": order_id, "card": card}})

    def checkout(self) -> dict[str, Any]:
        shown: dict[str, Any] = self._need("GET", CHECKOUT)
        return shown

    def history(self) -> list[dict[str, Any]]:
        """The checkout's entries as a tree."""
        answer = self._need("GET", f"{CHECKOUT}history/?tree=true")
        roots: list[dict[str, Any]] = answer["results"]
        return roots

    # Below: how it is done ---------------------------------------------------------------------

    def _log_in(self) -> None:
        """Once: Django takes its time to check a password, and the demo asks several times a second."""
        page = "/admin/login/"
        self._ask("GET", page, None)
        form = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": self._cookies["csrftoken"].value}
        status, _ = self._ask("POST", page, urlencode(form), "application/x-www-form-urlencoded")
        if status != 302:
            raise DemoError(f"the user {USER!r} could not log in: {status}")

    def _need(self, method: str, path: str, body: object = None) -> Any:
        if "sessionid" not in self._cookies:
            self._log_in()
        status, text = self._ask(method, path, None if body is None else json.dumps(body))
        if status >= 300:
            raise DemoError(f"{method} {path}: {status} {text[:2000]}")
        return json.loads(text)

    def _ask(self, method: str, path: str, body: str | None, content_type: str = "application/json") -> tuple[int, str]:
        headers = {"Content-Type": content_type, "Accept": "application/json, text/html"}
        headers["Cookie"] = "; ".join(f"{name}={cookie.value}" for name, cookie in self._cookies.items())
        if "csrftoken" in self._cookies:
            headers["X-CSRFToken"] = self._cookies["csrftoken"].value
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            for cookie in response.headers.get_all("Set-Cookie", []):
                self._cookies.load(cookie)
            return response.status, response.read().decode()
        finally:
            connection.close()
