from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.hashing import _codes, _polynomials, key_of
from palpate.cases.keys import KeyPlaces, as_keys, distinct

small_keys = st.lists(st.binary(min_size=1, max_size=1).map(lambda byte: byte * 16), max_size=60)


@given(small_keys, st.integers(1, 40))
def test_distinct_keys_are_numbered_as_a_dictionary_would(keys: list[bytes], keys_per_part: int) -> None:
    first: dict[bytes, int] = {}
    code = [first.setdefault(key, len(first)) for key in keys]
    found = distinct(as_keys(keys), keys_per_part=keys_per_part)
    assert found.code.tolist() == code
    assert found.rows.tolist() == [keys.index(key) for key in first]


@given(small_keys, small_keys)
def test_keys_are_found_where_a_list_has_them(keys: list[bytes], wanted: list[bytes]) -> None:
    table = list(dict.fromkeys(keys))
    found = KeyPlaces(as_keys(table)).find(as_keys(wanted))
    assert found.tolist() == [table.index(key) if key in table else -1 for key in wanted]


def test_a_key_is_found_anew_once() -> None:
    table = as_keys([b"a" * 16, b"b" * 16, b"c" * 16])
    found = np.array([False, True, False])
    rows, places = KeyPlaces(table).find_new(as_keys([b"x" * 16, b"c" * 16, b"b" * 16, b"c" * 16]), found)
    assert (rows.tolist(), places.tolist()) == ([1], [2])
    assert found.tolist() == [False, True, True]


@given(st.text(max_size=300))
def test_the_last_step_is_blake2b(text: str) -> None:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    assert np.array_equal(codes, _codes(text))
    digest = hashlib.blake2b(_polynomials(codes).tobytes() + len(text).to_bytes(8, "little"), digest_size=16)
    assert key_of(text) == digest.digest()
