"""Whether a token pattern can be searched piece by piece, so that an edit re-tokenises only its surroundings.

Pieces are what is between ASCII blanks. Lower-casing, NFKD and the ASCII accent stripping of scikit-learn leave these
blanks alone and never look across them (Unicode blanks may be replaced or dropped). A pattern is local if a match
can't contain a blank, is never empty and looks no further than `\\b` does.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

BLANKS = " \t\n\r\f\v"

_CATEGORIES = {
    "CATEGORY_WORD": False,
    "CATEGORY_NOT_WORD": True,
    "CATEGORY_DIGIT": False,
    "CATEGORY_NOT_DIGIT": True,
    "CATEGORY_SPACE": True,
    "CATEGORY_NOT_SPACE": False,
}
"""Whether each class of characters contains blanks."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


@cache
def is_local(pattern: str) -> bool:
    """Whether `findall` on a text equals `findall` on its pieces in turn; False if in doubt."""
    try:
        tree = importlib.import_module("re._parser").parse(pattern)
    except (ImportError, re.error):
        return False
    return int(tree.getwidth()[0]) >= 1 and _all_local(tree)


def _all_local(nodes: Iterable[tuple[Any, Any]]) -> bool:
    return all(_node_local(str(kind), value) for kind, value in nodes)


def _node_local(kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return chr(value) not in BLANKS
    if kind == "IN":
        return not any(_set_takes(value, blank) for blank in BLANKS)
    if kind in _REPEATS:
        return _all_local(value[2])
    if kind == "SUBPATTERN":
        return _all_local(value[3])
    if kind == "ATOMIC_GROUP":
        return _all_local(value)
    if kind == "BRANCH":
        return all(_all_local(branch) for branch in value[1])
    return kind == "AT" and str(value) == "AT_BOUNDARY"


def _set_takes(items: Iterable[tuple[Any, Any]], blank: str) -> bool:
    """Whether `[...]` matches a blank; a set with unknown parts counts as one that does."""
    negated, found = False, False
    for item, value in items:
        kind = str(item)
        if kind == "NEGATE":
            negated = True
        elif kind == "LITERAL":
            found |= value == ord(blank)
        elif kind == "RANGE":
            found |= value[0] <= ord(blank) <= value[1]
        elif kind == "CATEGORY" and str(value) in _CATEGORIES:
            found |= _CATEGORIES[str(value)]
        else:
            return True
    return found != negated
