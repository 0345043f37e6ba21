"""A machine without a browser fails the tests, and says what to do."""

from __future__ import annotations

import pytest

from tests.browser.chromium import VARIABLE, find_chromium


def test_a_missing_browser_is_a_failure_that_says_how_to_install_one(monkeypatch):
    """Not a skipped test: nobody would notice that the pages are not tested any more."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(VARIABLE, raising=False)

    with pytest.raises(pytest.fail.Exception, match="apt-get install -y --no-install-recommends chromium"):
        find_chromium()


def test_a_wrong_path_is_named(monkeypatch):
    """And nothing else is tried."""
    monkeypatch.setenv(VARIABLE, "/nowhere/chromium")

    with pytest.raises(pytest.fail.Exception, match="'/nowhere/chromium', which is no program"):
        find_chromium()
