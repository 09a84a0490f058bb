"""The same note in another form: capitals, punctuation, white space and line breaks. No word changes.

Case changes only plain letters: "µg" in capitals would look like milligrams. Numbers with units and tags keep theirs,
and abbreviations that are another word in small letters ("ALL", "US") stay in capitals. Punctuation and white space
keep the sequence of letters and digits; white space keeps all other characters too.
"""

from __future__ import annotations

import re
import string
from functools import cache

from palpate.cases.edits import Edit
from palpate.perturb.robustness.reading import Rng, WrittenNote, between, lexicon, merged, without_overlaps

_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_TO_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_WIDTH = 72


@cache
def _other_word() -> frozenset[str]:
    return frozenset(lexicon("words")["capitals"])


def lower_case(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """All in small letters."""
    clashes = [(start, end) for start, end, word in note.words if word in _other_word() and not note.shouts(start)]
    edits = _translated(note, clashes, _TO_LOWER)
    return edits or "no capital letters"


def upper_case(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """All in capitals."""
    return _translated(note, [], _TO_UPPER) or "no small letters"


def _translated(note: WrittenNote, kept: list[tuple[int, int]], table: dict[int, int]) -> list[Edit]:
    """One edit for each stretch between places that stay, from its first to its last letter that changes."""
    spans = merged([*note.untouchable, *kept, *note.measures])
    edits = []
    for start, end in between(spans, len(note.text)):
        before = note.text[start:end]
        after = before.translate(table)
        if before != after:
            edits.append(Edit(start, end, after))
    return edits


_ABBREVIATED = r"(?<!\.[A-Za-z].)(?<!\betc.)(?<!\b[A-Z].)(?<!\b[Dd]r.)(?<!\b[Mm]r.)(?<!\b[Mm]s.)(?<!\bvs.)"
_CLAUSE = (
    r"(?:(?:he|she|they|it|we|I|there|the|his|her|their|this|that|no|is|are|was|were|has|had|have|will|would|does|did|"
    r"denies|denied|reports|reported|notes|noted|states|stated|endorses|then|also|not|now)\b|[a-z]+(?:ed|es)\b)"
)
"""What a clause begins with: the comma before "and" then ends what was denied before it."""
_MARKS: tuple[tuple[re.Pattern[str], str], ...] = (
    # The mark comes first and what stands before it after that: patterns that begin so are searched much faster.
    (re.compile(rf"\.(?=[ \t]*(?:\n|\Z))(?<=[A-Za-z)].){_ABBREVIATED}"), ""),
    (re.compile(r"'(?<=[A-Za-z].)(?=[a-z])"), "’"),
    (re.compile(r"’(?<=[A-Za-z].)(?=[a-z])"), "'"),
    (re.compile(r"-(?<=[A-Za-z)] .)(?= [A-Za-z(])"), "–"),
    (re.compile(r"–(?<=[A-Za-z)] .)(?= [A-Za-z(])"), "-"),
)
_LIST_COMMA = re.compile(rf", [A-Za-z][A-Za-z -]{{1,30}}(,) (?:and|or) (?!{_CLAUSE})[a-z]")
_BULLET = re.compile(r"(?m)^[ \t]*([-*•])(?=[ \t]+[A-Za-z])")
_PLUS = re.compile(r"(?m)^[ \t]*\+")
_OTHER_BULLET = {"-": "*", "*": "-", "•": "-"}


def punctuation(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Stops at the ends of lines, bullets, quotation marks, dashes and the comma before "and" as others set them."""
    edits = [Edit(*match.span(), new) for pattern, new in _MARKS for match in pattern.finditer(note.text)]
    edits += [Edit(*match.span(1), "") for match in _LIST_COMMA.finditer(note.text)]
    if not _PLUS.search(note.text):  # "+ cough", "- fever" are findings
        edits += [Edit(*m.span(1), _OTHER_BULLET[m.group(1)]) for m in _BULLET.finditer(note.text)]
    kept = without_overlaps(edit for edit in edits if not note.touches(edit.start, edit.end))
    return kept or "no punctuation that could be set otherwise"


_SPACES = re.compile(r"[.:;]([ ]{1,2})(?=\S)")
_LINE_END = re.compile(r"\n(?<=\S.)", re.DOTALL)


def spaces(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Two spaces after a sentence instead of one, or one instead of two, and spaces at the ends of lines."""
    text = note.text
    edits = [Edit(*match.span(1), " " * (3 - len(match.group(1)))) for match in _SPACES.finditer(text)]
    edits += [Edit(match.start(), match.start(), " ") for match in list(_LINE_END.finditer(text))[::2]]
    kept = without_overlaps(edit for edit in edits if not note.touches(edit.start, edit.end))
    return kept or "no white space that could be set otherwise"


_HEADING_AHEAD = re.compile(r" (?:[-*•+]|\d{1,2}[.)]|[A-Z][A-Za-z ]{0,40}:|[A-Z]{4,})")


def wrapped_lines(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Lines of at most 72 characters: a line break instead of a space where a longer one would have to end.

    No line is begun where it would look like a heading or an item of a list.
    """
    edits = []
    text, position = note.text, 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        while end - position > _WIDTH:
            at = _last_break(note, position + 1, position + _WIDTH, end)
            if at < 0:
                break
            edits.append(Edit(at, at + 1, "\n"))
            position = at + 1
        position = end + 1
    return edits or f"no line of more than {_WIDTH} characters"


def _last_break(note: WrittenNote, first: int, last: int, end: int) -> int:
    """The last single space up to `last` at which a line may end, else the next one; -1 if there is none."""
    text = note.text
    at = text.rfind(" ", first, last + 1)
    while at >= first and not _may_break(note, at):
        at = text.rfind(" ", first, at)
    if at >= first:
        return at
    at = text.find(" ", last + 1, end)
    while at >= 0 and not _may_break(note, at):
        at = text.find(" ", at + 1, end)
    return at


def _may_break(note: WrittenNote, at: int) -> bool:
    text = note.text
    single = not text[at - 1 : at].isspace() and not text[at + 1 : at + 2].isspace() and at + 1 < len(text)
    return single and not _HEADING_AHEAD.match(text, at) and not note.touches(at, at + 1)


_BREAK = re.compile(r"[ \t]*(?:\r?\n[ \t]*)+")


def one_line(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """The whole note on one line."""
    text = note.text
    inner = [match for match in _BREAK.finditer(text) if match.start() > 0 and match.end() < len(text)]
    edits = [Edit(*match.span(), " ") for match in inner if not note.touches(*match.span())]
    return edits or "the note stands on one line"
