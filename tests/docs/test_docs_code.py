"""Every code block of the documentation is true: it runs, and does what the page says."""

from __future__ import annotations

import pytest

from tests.docs.follower import LATER, Follower
from tests.docs.pages import Block, blocks_of, pages
from tests.docs.running import program, run

PROGRAMS = [page for page in pages() if any(block.is_run for block in blocks_of(page))]
SETTINGS = [
    block
    for page in pages()
    for block in blocks_of(page)
    if block.file == "mysite/settings.py" and page != "quickstart"
]


@pytest.mark.django_db
@pytest.mark.parametrize("page", PROGRAMS)
def test_the_blocks_of_a_page_print_what_it_says(page: str) -> None:
    """A page is one program, from its first block to its last."""
    with program() as module:
        printed = {block.where: run(block, module) for block in blocks_of(page) if block.is_run}

    assert printed == {block.where: block.output for block in blocks_of(page) if block.is_run}


def test_the_quickstart_leads_to_a_project_whose_own_tests_pass(follower: Follower) -> None:
    """Pasted block by block into a fresh project, on SQLite and without a broker."""
    assert "no issues" in follower.manage("check", "--fail-level", "WARNING")
    follower.manage("makemigrations", "--check")
    follower.manage("test", "shop")


def test_the_quickstart_leads_on_to_postgresql_and_redis(follower: Follower) -> None:
    """The settings are in order, and the web process knows the broker that it is to ring."""
    follower.paste(block for block in blocks_of("quickstart") if block.section == LATER)

    assert "no issues" in follower.manage("check", "--fail-level", "WARNING")
    told = follower.manage(
        "shell", "--no-imports", typed="from celery import current_app; print(current_app.conf.broker_url)"
    )
    assert told.strip() == "redis://localhost:6379/0"


def test_the_tests_of_the_testing_page_pass(follower: Follower) -> None:
    """Its files replace and join those of the quickstart's shop, and both runners run them."""
    follower.paste(block for block in blocks_of("howto/testing") if block.file)

    follower.manage("test", "shop")
    passed = follower.run("-m", "pytest", "-p", "no:cacheprovider", "-q")

    assert " passed" in passed
    assert "failed" not in passed


@pytest.mark.parametrize("block", SETTINGS, ids=lambda block: block.where)
def test_settings_on_a_page_are_in_order(follower: Follower, block: Block) -> None:
    """`manage.py check` has nothing to say about them."""
    if "for PostgreSQL" in block.head:
        follower.paste(each for each in blocks_of("quickstart") if "instead of the SQLite" in each.head)
    follower.paste([block])

    assert "no issues" in follower.manage("check", "--fail-level", "WARNING")


def test_no_file_of_a_page_is_left_untested() -> None:
    """Whoever adds a file to another page adds a test that follows it."""
    followed = {"quickstart", "howto/testing"}
    files = {(page, block.file) for page in pages() for block in blocks_of(page) if block.file}

    assert [each for each in files if each[0] not in followed and each[1] != "mysite/settings.py"] == []
