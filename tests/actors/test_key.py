"""The key of an actor, its parts, and its form in a URL."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_rivet.actors.exceptions import InvalidKeyError
from django_rivet.actors.key import key_from_url, key_parts, key_to_url, normalize_key

PARTS = st.lists(
    st.one_of(
        st.text("~01a.", min_size=1, max_size=5),
        st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"), min_size=1),
    ).filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=5,
).map(tuple)


class Name(str):
    pass


def test_a_string_and_a_sequence_of_one_are_one_key():
    """It does not matter which way a caller writes it."""
    assert normalize_key("main") == normalize_key(("main",)) == normalize_key(["main"]) == "main"


def test_the_parts_of_a_key_are_joined_by_a_slash():
    """The canonical text is what the database holds and what ``actor.key`` shows."""
    assert normalize_key(("tenant-1", "order-9")) == "tenant-1/order-9"
    assert key_parts("tenant-1/order-9") == ("tenant-1", "order-9")
    assert key_parts("main") == ("main",)


def test_any_other_character_is_welcome():
    """Keys are for people: spaces, accents, dots inside and signs stay as they are."""
    assert normalize_key("Žofie 7 ... ~ ? # %") == "Žofie 7 ... ~ ? # %"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "the key is ''"),
        ((), "at least one part"),
        (("a", ""), "part 2 of the key is ''"),
        (".", "the key is '.'"),
        (("..", "a"), "part 1 of the key is '..'"),
        ("a/b", 'the key holds a "/": give a sequence of parts'),
        (("a", "b/c"), 'part 2 of the key holds a "/"'),
        ("a\n", "a control character ('\\n') at index 1"),
        ("a\x00", "a control character ('\\x00')"),
        ("\x7f", "a control character ('\\x7f')"),
        ("\x85", "a control character ('\\x85')"),
        ("a\ud800", "a lone surrogate ('\\ud800') at index 1"),
        (("a", 9), "part 2 of the key is of type int"),
        (("a", ("b",)), "part 2 of the key is of type tuple"),
        ((Name("a"),), "use a plain str"),
        (Name("a"), "not Name"),
        (9, "not int"),
        (None, "not NoneType"),
        (b"a", "not bytes"),
        ({"a"}, "not set"),
        ({"a": 1}, "not dict"),
        ("x" * 1025, "the key is 1025 bytes long; at most 1024"),
        ("é" * 513, "the key is 1026 bytes long"),
        (("a" * 512, "b" * 512), "the key is 1025 bytes long"),
    ],
)
def test_a_key_that_breaks_a_rule_is_refused_with_the_rule(key, reason):
    """The error says which part it is, and why."""
    with pytest.raises(InvalidKeyError) as refused:
        normalize_key(key)

    assert reason in str(refused.value)
    str(refused.value).encode()


def test_a_key_may_be_as_long_as_the_limit():
    """1,024 bytes are allowed, separators included."""
    assert len(normalize_key(("a" * 511, "b" * 512))) == 1024


@pytest.mark.parametrize(
    ("key", "url"),
    [
        ("main", "main"),
        (("tenant-1", "order-9"), "tenant-1~order-9"),
        ("a~b", "a~0b"),
        (("a", "~b"), "a~~0b"),
        (("a~", "b"), "a~0~b"),
        (("a", "0b"), "a~~~0b"),
        (("0", "0"), "0~~~0"),
        ("~~", "~0~0"),
    ],
)
def test_in_urls_the_parts_are_joined_by_a_tilde(key, url):
    """One segment of a path, whatever the key holds."""
    assert key_to_url(normalize_key(key)) == url
    assert key_from_url(url) == normalize_key(key)


@settings(deadline=None)
@given(PARTS)
def test_every_key_comes_back_from_its_url(parts):
    """So no two keys share a URL."""
    text = normalize_key(parts)

    assert key_parts(text) == parts
    assert key_from_url(key_to_url(text)) == text
    assert "/" not in key_to_url(text)


@settings(deadline=None)
@given(st.text("~01a", max_size=8))
def test_a_url_that_no_key_has_is_refused(segment):
    """And no key has two URLs."""
    try:
        text = key_from_url(segment)
    except InvalidKeyError:
        return
    assert key_to_url(text) == segment


@pytest.mark.parametrize("segment", ["", "~", "a~", "~a", "a~~b", "a~~~b", "a~..", "a/b"])
def test_an_invalid_escape_is_an_invalid_key(segment):
    """A client that builds URLs by hand gets a 400, not another actor."""
    with pytest.raises(InvalidKeyError):
        key_from_url(segment)
