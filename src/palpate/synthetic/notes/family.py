"""The relatives in a note: who can be alive or dead, and at what age, given the patient's own age."""

from __future__ import annotations

from collections.abc import Set

from palpate.synthetic.dice import Dice

_OLDEST = 97
_YOUNGEST = 18
OLDEST_SHOWN = 89
"""Higher ages are removed by de-identification."""
_PARENTS = {"father": (18, 45), "mother": (18, 45)}
_GRANDPARENTS = {"paternal grandfather": (38, 80), "maternal grandmother": (38, 80)}
_ELDERS = {"uncle": (5, 40), "aunt": (5, 40)}
_PEERS = {"brother": (-20, 20), "sister": (-20, 20), "cousin": (-20, 20)}
_CHILDREN = {"son": (-45, -16), "daughter": (-45, -16)}
_YEARS_OLDER = {**_PARENTS, **_GRANDPARENTS, **_ELDERS, **_PEERS, **_CHILDREN}
"""How many years older than the patient, at least and at most."""
CHILDREN_FROM = 40
"""Younger patients have no adult children."""
_ELDERS_ALIVE_UNTIL = 70
_PEERS_DEAD_FROM, _CHILDREN_DEAD_FROM = 35, 60


def living(age: int) -> tuple[str, ...]:
    """The relatives that a patient of this age may have now."""
    elders = (*_PARENTS, *_ELDERS) if age <= _ELDERS_ALIVE_UNTIL else ()
    return (*elders, *_PEERS, *(_CHILDREN if age >= CHILDREN_FROM else ()))


def dead(age: int) -> tuple[str, ...]:
    """The relatives that a patient of this age may have lost."""
    peers = tuple(_PEERS) if age >= _PEERS_DEAD_FROM else ()
    children = tuple(_CHILDREN) if age >= _CHILDREN_DEAD_FROM else ()
    return (*_PARENTS, *_GRANDPARENTS, *_ELDERS, *peers, *children)


def of_phrase(phrase: str, age: int, taken: Set[str], dice: Dice) -> str:
    """A relative for a phrase: alive if it has {now}, dead if it has {died_at}; nobody who is `taken`."""
    fit: tuple[str, ...] = tuple(dict.fromkeys((*living(age), *dead(age))))
    if "{now}" in phrase:
        fit = living(age)
    elif "{died_at}" in phrase:
        fit = dead(age)
    return dice.pick([name for name in fit if name not in taken])


def current_age(name: str, age: int, dice: Dice) -> int:
    """How old a living relative is."""
    low, high = _range(name, age)
    return dice.integer(min(low, _OLDEST), min(high, _OLDEST))


def age_at_death(name: str, age: int, dice: Dice) -> int:
    """Below the age that the relative would have now; a parent lived to see the patient born."""
    older = dice.integer(*_range(name, age)) - age
    high = min(OLDEST_SHOWN, age + older - 1)
    low = min(41, high * 2 // 3)
    return dice.integer(max(low, older + 1) if name in _PARENTS else low, high)


def age_at_event(name: str, age: int, dice: Dice) -> int:
    """The age at a diagnosis or an operation: below the age that the relative has, or would have, now."""
    high = min(OLDEST_SHOWN, dice.integer(*_range(name, age)) - 1)
    return dice.integer(min(30, high * 2 // 3), high)


def _range(name: str, age: int) -> tuple[int, int]:
    least, most = _YEARS_OLDER[name]
    low = max(_YOUNGEST, age + least)
    return low, max(low, age + most)
