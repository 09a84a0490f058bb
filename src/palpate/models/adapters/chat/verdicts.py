"""Reading a whole answer for a choice such as yes or no.

A choice counts where it is said, not where its word occurs. The answer is cut into clauses; a clause says a choice if
it consists of it ("Yes"), or if everything around it belongs to a way of stating an answer that is known ("so the
answer is", "I would say", "from me"). What is around it otherwise may deny it ("I refuse to say yes"), report it ("the
doctor said no"), or leave it open ("one might say yes"): there are too many such ways to list, so an unknown one says
nothing. "Yes" and "no" also count at the beginning of an answer that goes on ("Yes the patient will return"), but not
where they are conditional ("Yes, if he stops"), a question ("Yes?"), or about the question and not its answer ("No, I
can't answer that"). All clauses must agree, unless one states the final answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from palpate.models.adapters.chat.phrases import (
    BEFORE_A_SENTENCE,
    BEHIND_A_NO,
    CLAUSE_END,
    CONCLUSION,
    CONDITION,
    FINAL,
    JOINS,
    NOT_STATED,
    OF_AN_ANSWER,
    OF_WHOM,
    OFFERS,
    OPENS_AN_ANSWER,
    REASONS_BEGIN,
    RESTATED,
    SORRY,
    STATES,
    UNANSWERED,
    VERBS,
    WHOLE_ANSWERS,
)
from palpate.privacy import hides

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_THOUGHT = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_CHANNELS = re.compile(r"\A.*<\|channel\|>final(?:<\|[^|>]*\|>)?", re.DOTALL)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>.*\Z", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z]\w*>|<\|[^|>]*\|>")
_MARKS = re.compile(r"[*_`#>~$]+|\\boxed|\\text")
_QUOTES = re.compile(r"[\"“”„«»]|(?<!\w)['‘’]|['‘’](?!\w)")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BEHIND = 200
"""Characters behind a choice in which it is taken back, if it is."""
_LONGEST_LEAD = 4
"""Words of the clause before a choice in which a conclusion is looked for."""


class Unreadable(Exception):
    """The message says why, without the answer."""


class _Said(NamedTuple):
    value: float
    final: bool


@hides("words", "before", "after", "last", "sentence", "rest")
class _Clause(NamedTuple):
    words: str
    before: str
    """What separates it from the clause before."""
    after: str
    """What separates it from the clause behind."""
    last: str
    """The words of the clause before."""
    sentence: str
    """The words of the sentence before it."""
    rest: str
    """What is directly behind it."""


def without_thoughts(answer: str) -> str:
    """The answer without what a model writes while it thinks; one that never ends leaves nothing."""
    said = _TRAILING_THOUGHT.sub("", _THOUGHT.sub("", answer))
    return _OTHER_CHANNEL.sub("", _CHANNELS.sub("", said))


def plain(answer: str) -> str:
    """The answer in the usual width, with straight apostrophes, without what is not seen, and without pictures.

    >>> plain("Ｙｅｓ\u200b ✅")
    'Yes  '
    """
    usual = unicodedata.normalize("NFKC", answer).replace("’", "'")
    kinds = ((character, unicodedata.category(character)) for character in usual)
    return "".join(" " if kind == "So" else character for character, kind in kinds if kind != "Cf")


def read_choice(answer: str, choices: Mapping[str, float]) -> float:
    """The probability of the choice that an answer makes.

    >>> read_choice("No evidence of pneumonia, so: Yes", {"yes": 1.0, "no": 0.0})
    1.0
    """
    pattern, values = _pattern(tuple(choices.items()))
    text = plain(answer)
    said = _all_said(text, pattern, values)
    final = [each for each in said if each.final]
    verdicts = {each.value for each in final or said}
    if len(verdicts) > 1 and not final and (reasons := REASONS_BEGIN.search(text)):
        verdicts = {each.value for each in _all_said(text[: reasons.start()], pattern, values)}
    if not verdicts:
        same = (word for word, whole in WHOLE_ANSWERS.items() if word in values and whole.match(text))
        verdicts = {values[word] for word in same}
    if len(verdicts) != 1:
        raise Unreadable(
            f"the answer is neither {' nor '.join(choices)}" if not verdicts else "the answer contradicts itself"
        )
    return verdicts.pop()


def _all_said(text: str, pattern: re.Pattern[str], values: Mapping[str, float]) -> list[_Said]:
    return [found for clause in _clauses(text) if (found := _said(clause, pattern, values)) is not None]


def _clauses(plain_text: str) -> Iterator[_Clause]:
    text = _QUOTES.sub(" ", _MARKS.sub(" ", _TAG.sub("\n", plain_text)))
    ends = [(0, 0), *((found.start(), found.end()) for found in CLAUSE_END.finditer(text)), (len(text), len(text))]
    before, last, sentence = "", "", ""
    for (_, begin), (end, behind) in pairwise(ends):
        words = " ".join(text[begin:end].split())
        after = text[end:behind]
        if words:
            yield _Clause(words, before, after, last, sentence, text[behind : behind + _BEHIND])
            before, last, sentence = "", words, f"{sentence} {words}".strip()
        before += after
        if re.search(r"[.!?;\n\r|。]", after):
            sentence = ""


@lru_cache(maxsize=64)
def _pattern(choices: tuple[tuple[str, float], ...]) -> tuple[re.Pattern[str], dict[str, float]]:
    """Finds a choice; a single letter counts only as it is written, because "a" is a word."""
    named = [(plain(word), p) for word, p in choices]
    names = sorted((word for word, _ in named), key=len, reverse=True)
    parts = [re.escape(word) if len(word) == 1 else f"(?i:{re.escape(word)})" for word in names]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)"), {word.casefold(): p for word, p in named}


def _said(clause: _Clause, pattern: re.Pattern[str], values: Mapping[str, float]) -> _Said | None:
    """The choice that a clause says."""
    words = clause.words
    found = [each for each in pattern.finditer(words) if not _before_a_noun(each, words)]
    if len({values[each[0].casefold()] for each in found}) != 1 or "?" in clause.after:
        return None
    first, last = found[0], found[-1]
    value = values[last[0].casefold()]
    lead, tail = words[: first.start()].strip(), words[last.end() :].strip()
    if _open(clause, tail):
        return None
    between = pattern.sub(" ", words[first.end() : last.start()])
    if _stated(lead, last[0]) and _stated(f"{between} {tail}", "", OF_WHOM):
        if not lead and not _introduced(clause):
            return None
        return _Said(value, bool(FINAL.search(lead or _conclusion(clause))))
    if lead or clause.last or first[0].casefold() not in OPENS_AN_ANSWER:
        return None
    following = tail.split()[0].casefold() if tail else ""
    return None if following in JOINS or following in VERBS else _Said(value, final=False)


def _stated(words: str, choice: str, more: frozenset[str] = frozenset()) -> bool:
    """Whether the words around a choice are a known way to state an answer."""
    if all(word in OF_AN_ANSWER or word in more for word in _WORD.findall(words.casefold())):
        return len(choice) != 1 or not words or STATES.search(words) is not None
    # "The risk of a readmission is high": other choices than yes and no are said of something.
    own = choice and len(choice) > 1 and choice.casefold() not in OPENS_AN_ANSWER
    return bool(own and STATES.search(words) and not NOT_STATED.search(words))


def _introduced(clause: _Clause) -> bool:
    """Whether a choice that stands alone is said, and not what was asked for, or what somebody said."""
    if re.search(r"[:=>→⇒]", clause.before):
        return not NOT_STATED.search(RESTATED.sub(" ", clause.last))
    return not clause.sentence or not NOT_STATED.search(clause.last.split()[-1])


def _open(clause: _Clause, tail: str) -> bool:
    """Whether what is around a choice takes back what it says."""
    if CONDITION.match(clause.sentence) or SORRY.search(clause.sentence):
        return True
    if CONDITION.match(" ".join(clause.rest.split())):
        return True
    behind = " ".join(f"{tail}{clause.after}{clause.rest}".split())[:_BEHIND]
    return OFFERS.match(behind) is not None or UNANSWERED.match(behind) is not None


def _conclusion(clause: _Clause) -> str:
    if CONCLUSION.search(clause.before):
        return "so"
    return " ".join(clause.last.split()[-_LONGEST_LEAD:])


def _before_a_noun(word: re.Match[str], clause: str) -> bool:
    """Whether "no" is no answer where it stands: "no evidence"."""
    rest = clause[word.end() :].split()
    return (
        word[0].casefold() == "no"
        and bool(rest)
        and rest[0].casefold() not in (*BEFORE_A_SENTENCE, *JOINS, *VERBS, *BEHIND_A_NO)
    )
