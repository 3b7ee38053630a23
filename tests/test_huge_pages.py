"""Gathering memory into huge pages changes nothing but where it lies."""

from __future__ import annotations

from grader.huge_pages import HUGE, addresses, gather


def test_memory_reads_the_same_afterwards() -> None:
    data = bytearray(b"abcd" * (4 * HUGE // 4))
    gathered = gather()
    assert gathered % HUGE == 0
    assert data == b"abcd" * (4 * HUGE // 4)


def test_only_whole_huge_pages_are_named() -> None:
    assert all(address % HUGE == 0 for address in addresses())
