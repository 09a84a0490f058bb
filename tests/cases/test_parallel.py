"""Parts of the work in processes of their own, against the same in this one."""

from __future__ import annotations

import os
import threading
import time

import pytest

from palpate.cases.parallel import each_part, n_cores


def where(k: int) -> tuple[int, int]:
    return k * k, os.getpid()


def fails_elsewhere(parent: int, k: int) -> int:
    if os.getpid() != parent and k == 2:
        raise ValueError("only here")
    return -k


def dies_elsewhere(parent: int, k: int) -> int:
    if os.getpid() != parent:
        os._exit(1)
    return -k


def one_dies_elsewhere(parent: int, how: str, k: int) -> int:
    if os.getpid() != parent and k == 0:
        if how == "dies":
            os._exit(1)
        raise ValueError("only here")
    time.sleep(0.05)
    return os.getpid()


def always_fails(k: int) -> int:
    raise ValueError(f"part {k}")


def test_results_are_in_order_and_made_elsewhere() -> None:
    found = list(each_part(where, [(k,) for k in range(9)], n_processes=2))
    assert [value for value, _ in found] == [k * k for k in range(9)]
    assert os.getpid() not in {process for _, process in found}
    assert n_cores() >= 1


def test_one_process_is_this_one() -> None:
    assert list(each_part(where, [(3,)])) == [(9, os.getpid())]
    assert list(each_part(where, [])) == []


def test_what_fails_elsewhere_is_done_here() -> None:
    for function in (fails_elsewhere, dies_elsewhere):
        parts = [(os.getpid(), k) for k in range(5)]
        assert list(each_part(function, parts, n_processes=2)) == [0, -1, -2, -3, -4]


@pytest.mark.parametrize("how", ["dies", "fails"])
def test_only_the_part_of_a_process_that_died_is_done_here(how: str) -> None:
    parts = [(os.getpid(), how, k) for k in range(12)]
    found = list(each_part(one_dies_elsewhere, parts, n_processes=2))
    assert found[0] == os.getpid()
    assert os.getpid() not in found[1:]
    assert how != "dies" or len(set(found[1:])) == 1


def test_an_error_is_that_of_the_function() -> None:
    with pytest.raises(ValueError, match="part 0"):
        list(each_part(always_fails, [(k,) for k in range(4)], n_processes=2))


class OwnedByOneThread:
    """Something that two threads may not touch at once: it changes while it is pickled, and while it is worked on."""

    def __init__(self) -> None:
        self.touched_by: list[int] = []

    def __reduce__(self) -> tuple[type[OwnedByOneThread], tuple[()]]:
        self.touched_by.append(threading.get_ident())
        return OwnedByOneThread, ()


def touches(parent: int, thing: OwnedByOneThread) -> None:
    if os.getpid() != parent:
        raise ValueError("only here")
    thing.touched_by.append(threading.get_ident())


def test_one_thread_pickles_parts_and_does_what_failed() -> None:
    thing = OwnedByOneThread()
    list(each_part(touches, [(os.getpid(), thing)] * 6, n_processes=2))
    assert thing.touched_by.count(threading.get_ident()) == len(thing.touched_by) == 12


def test_what_cannot_be_pickled_is_done_here() -> None:
    assert list(each_part(lambda k: k + 1, [(k,) for k in range(5)], n_processes=2)) == [1, 2, 3, 4, 5]
