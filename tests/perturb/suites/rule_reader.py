"""A reader of the `ade` suite's temporal and negation sentences that knows no template: only words, commas and numbers.

It is handed a sentence with DRUG and EFFECT in place of the values and says whether the effect is one of the drug.
"""

from __future__ import annotations

import re

DAYS = {"day": 1.0, "week": 7.0, "month": 30.44}
TIME = re.compile(r"(\d+) (day|week|month)s?")
NEGATION = re.compile(r"\b(?:no|not|never|without|neither|cannot|free of)\b|n't\b")
CLAUSE_END = re.compile(r"[,;.]|\b(?:but|because|until)\b")
MAIN_FIRST = ("prior to", "before", "by the time", "until", "when")
SUBORDINATE_FIRST = ("following", "after", "since", "once")


def effect_is_negated(sentence: str) -> bool:
    """An odd number of negations stands before the effect in its own clause."""
    before = sentence.lower().split("effect")[0]
    clause = CLAUSE_END.split(before)[-1]
    return len(NEGATION.findall(clause)) % 2 == 1


def drug_came_first(sentence: str) -> bool:
    """The order of the two events."""
    text = sentence.lower()
    times = TIME.findall(text)
    if len(times) == 2:
        return _by_two_times(text)
    if len(times) == 1:
        return _by_one_time(text)
    return _by_words(text)


def _by_two_times(text: str) -> bool:
    ages = {}
    for clause in re.split(r", and |, but | and have ", text):
        ((number, unit),) = TIME.findall(clause)
        ages["drug" if "drug" in clause else "effect"] = int(number) * DAYS[unit]
    assert set(ages) == {"drug", "effect"}, text
    return ages["drug"] > ages["effect"]


def _by_one_time(text: str) -> bool:
    first, second = re.split(r" when |, and ", text)
    with_time, without = (first, second) if TIME.search(first) else (second, first)
    assert ("drug" in with_time) != ("drug" in without), text
    return "drug" in with_time


def _by_words(text: str) -> bool:
    in_order = text.index("drug") < text.index("effect")
    if re.search(r"\bonly then\b|\blater\b|, so ", text):
        return in_order
    cues = [*MAIN_FIRST, *SUBORDINATE_FIRST]
    found = [(match.start(), cue) for cue in cues for match in re.finditer(rf"\b{cue}\b", text)]
    assert len(found) == 1, (text, found)
    at, cue = found[0]
    # A clause that opens the sentence ends at its comma, one that closes it runs to the end.
    opens = at == 0 or text[:at].strip() == "long"
    subordinate = text[at : text.index(",")] if opens else text[at:]
    drug_in_subordinate = "drug" in subordinate
    assert drug_in_subordinate != ("effect" in subordinate), text
    if cue == "until" and re.search(r"\bnever\b", text[:at]):
        return drug_in_subordinate
    return drug_in_subordinate if cue in SUBORDINATE_FIRST else not drug_in_subordinate
