"""A cache keeps what was used last, up to its size."""

from __future__ import annotations

from app.cache import SizedCache


def test_the_least_used_goes_first() -> None:
    cache: SizedCache[str, int] = SizedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_sizes_count() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    cache.put("a", b"123456")
    cache.put("b", b"1234")
    cache.put("b", b"12")
    cache.put("c", b"12")
    assert cache.get("a") == b"123456"
    cache.put("d", b"1")
    assert cache.get("b") is None
    assert cache.get("a") is not None


def test_what_is_too_large_alone_is_not_kept() -> None:
    cache: SizedCache[str, bytes] = SizedCache(3, len)
    cache.put("a", b"12")
    cache.put("b", b"1234")
    cache.put("a", b"12345")
    assert (cache.get("a"), cache.get("b")) == (None, None)
    cache.put("c", b"123")
    assert cache.get("c") == b"123"
