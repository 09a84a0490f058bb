"""Admission notes: the sections of a discharge summary that were known at admission, found by their headings.

Behavioural-testing paper, section 4.1, after van Aken et al. 2021. A discharge summary is written at the end and tells
how the stay went, so a model that predicts outcomes may read only what was known at the start. When in doubt, text is
left out: an unknown heading ends a section; a physical exam or a list of medications counts only if it comes before the
hospital course or says that it is from admission; and a section is cut at the first mention of discharge, of death or
of a later day of the stay.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from palpate.files import read_resource

Kind = Literal["keep", "early", "other", "later", "inside", "unknown"]
"""What a heading opens: a section known at admission (keep); one that is known only if no later section came before it
(early); a section of neither kind (other); one written afterwards (later); a part of a section (inside)."""

ORDER = {
    "complaint": "CHIEF COMPLAINT",
    "illness": "PRESENT ILLNESS",
    "history": "MEDICAL HISTORY",
    "medications": "MEDICATIONS ON ADMISSION",
    "allergies": "ALLERGIES",
    "exam": "PHYSICAL EXAM",
    "family": "FAMILY HISTORY",
    "social": "SOCIAL HISTORY",
}
MAIN = ("complaint", "illness", "history")

# Words that belong to the end of a stay.
LATER = re.compile(
    r"\bcourse$|^course\b|\bcourse (?:by|in|during|of|on|while)\b|\bdischarg\w*|\bd c\b|\bdc\b|\bfollow ?ups?\b|"
    r"\bdisposition\b|\bdispo\b|\baddend\w*|\bcondition\b|\binstructions?\b|\bsummary\b|\bcomplications?\b|"
    r"\bdeath\b|\bdeceased\b|\bexpired\b|\bautopsy\b|\boutcome\b|\btransition\w*|\bfinal\b|\bpost ?op\w*|"
    r"\bprogress\b|\bby systems?\b|\bpending\b|\bexpiration\b|\bhospital day\b|\bpod \d"
)
# Words that may be from any time: they end a section.
ENDING = re.compile(
    r"\btransfer\w*|\bevents?\b|\bissues?\b|\binterval\b|\bhospitali[sz]ations?\b|\bactive problems?\b|"
    r"\bproblem list\b|\btreatments?\b|\b(?:labs?|laborator\w+|imaging|studies|results?|cultures?)\b"
)
# Headings inside a section: parts of the body, vital signs, relatives, the emergency department.
INSIDE = re.compile(
    r"^(?:gen(?:eral)?(?: appearance)?|heent|head|eyes?|ears?|nose|throat|neck|lungs?|chest|pulm(?:onary)?|skin|"
    r"resp(?:iratory)?|cv|cvs|cor|heart|cardiac|cardiovascular|card|rrr|abd(?:omen)?|abdominal|gi|gu|neuro\w*|"
    r"ext(?:remities|r|rem)?|msk|back|spine|pulses?|psych|mental status|lymph\w*|rectal|breast|pelvic|vascular|"
    r"musculoskeletal|wound|access|t|p|hr|bp|rr|o2(?: sat)?|sats?|temp\w*|pulse|weight|height|wt|ht|cn\w*|motor|"
    r"cranial nerves|strength|sensory|sensation|reflexes|dtrs?|gait|coordination|tone|orientation|language|attention|"
    r"ros|review of systems|(?:in|at) the (?:ed|er|emergency (?:department|room)).*|"
    r"(?:on|upon) (?:arrival|presentation|admission|exam\w*)\b.*|initial (?:vs|vitals?|vital signs).*|"
    r"(?:vs|vitals?|vital signs)(?: (?:on|prior to|before|at|upon) transfer.*)?|(?:ed|triage) (?:vs|vitals?|course)|"
    r"tobacco|smoking|alcohol|etoh|drugs?|illicits?|occupation|lives|habits|mother|father|brother|sister|siblings?|"
    r"parents?|children|maternal.*|paternal.*|right|left|carotid|femoral|radial|dp(?: pulse)?|pt(?: pulse)?|"
    r"varicosities|edema|constitutional|endocrine|heme|mental|appearance|(?:cardiac )?risk factors)$"
)

NUMBERING = re.compile(r"^\W*(?:(?:\d{1,2}|[ivx]{1,4}|[a-h])[.)]\s+)?", re.IGNORECASE)
LISTED = re.compile(r"\s*(?:[#\d>-]|[ivx]{1,4}[.)]|[a-h][.)])", re.IGNORECASE)
WITH_COLON = re.compile(r"^(?P<name>[A-Za-z][^:\n]{0,69}?)\s*(?::|\s-{1,2}(?:\s|$)|\.{3})(?P<rest>.*)$")
MIDLINE = re.compile(
    r"(?:brief |summary of )?(?:hospital|icu|micu|sicu|ccu) (?:hospital )?course\b|"
    r"\b(?:discharge|d/c) (?:diagnos[ei]s|medications?|meds|instructions?|condition|disposition|status|plan|"
    r"physical|exam\w*|labs?|vitals?|pe|vs)\b|\b(?:medications?|meds|condition|diagnos[ei]s|status|disposition|exam|"
    r"examination|labs?|vitals?|vs|pe) (?:on|at|upon|prior to|at (?:the )?time of) (?:discharge|d/c)\b|"
    r"\b(?:on|at|upon|prior to|before|time of|day of) (?:the )?(?:discharge|d/c|dc)\b\s*[:,-]|"
    r"^\W*(?:on|at|upon|prior to|before|(?:at )?(?:the )?time of|day of)(?: the)? (?:discharge|d/c|dc)\b|"
    r"^\W*(?:discharge|d/c|dc)\b\W*(?:$|:|exam|pe\b|vs\b|vitals)",
    re.IGNORECASE,
)
# The end of the stay in running text, whatever the section.
PATIENT = re.compile(
    r"\bon (?:the )?(?:day|morning|date) of (?:discharge|d/c|dc)\b|"
    r"\b(?:patient|pt|infant|baby)(?: (?:was|had|has|then|later|subsequently|ultimately|eventually))* "
    r"(?:died|expired|passed away|pronounced)\b",
    re.IGNORECASE,
)
# Words about death: in a family history they concern relatives, and so do some of them in a social history.
DEATH = re.compile(
    r"\bcmo\b|\bcomfort (?:measures?|care)\b|\btime of death\b|\bexpiration (?:exam\w*|note|summary|pe|physical)\b|"
    r"\bpronounced (?:dead|deceased)\b",
    re.IGNORECASE,
)
SOMEBODY = re.compile(
    r"\bexpired\b|\bpassed away\b|\b(?:he|she) (?:\w+ly )?died\b|\b(?:was|were|is|been|and) pronounced\b|"
    r"(?<!more )(?<!most )(?<!less )\bpronounced(?: (?:at|on|by|\d|\[\*\*)|\W*$)",
    re.IGNORECASE,
)
# Words about a later day of the stay; in a history they may be about another hospital, so only its rest is cut.
WARD = re.compile(
    r"\bhospital day\b|\bhd ?# ?\d|\bpod ?#? ?\d|\bpost[- ]?op(?:erative)?(?:ly)? day\b|"
    r"\btransferred (?:back |out )?to (?:the |a )?(?:[\w-]+ ){0,2}floors?\b|\bcalled out to the\b|"
    r"\bwas (?:\w+ ){0,2}extubated\b|\bextubated on\b|"
    r"(?:^\W*|(?<=[.;:]\s)\s*)(?-i:In|While in) the (?:[a-z]{0,3}icu|ccu|intensive care unit)\b",
    re.IGNORECASE,
)
TRIGGERS = (
    *("discharge", "d/c", " dc", "died", "expir", "passed", "pronounced", "cmo", "comfort", "death", "day", "hd"),
    *("pod", "floor", "called", "extubated", "icu", "ccu", "intensive"),
)
# A hospital course by organ system without a heading of its own.
SYSTEM = re.compile(
    r"^\W*?(?P<number>#|(?:\d{1,2}|[ivx]{1,4})[.)])?\s*(?=(?-i:[A-Z]))"
    r"(?:cv|cvs|cardiovascular|cardiac|cardiology|resp|respiratory|pulm|pulmonary|gi|gastrointestinal|gu|genitourinary|"
    r"renal|neuro|neurologic(?:al)?|neurology|heme|heme[/ -]onc|hematolog(?:y|ic|ical)|id|infectious diseases?|"
    r"endo|endocrine|endocrinology|f\.?e\.?n\.?|fen ?/ ?gi|fluids?,? electrolytes,?(?: and| &|/)? ?nutrition|"
    r"musculoskeletal|psych|psychiatric|psychiatry)"
    r"(?: systems?| status| issues?)?\s*(?::|\s-{1,2}\s|(?P<stop>\.\s))",
    re.IGNORECASE,
)
# Lists by organ system that are known at admission: a review of systems, an exam within the present illness.
REVIEW = re.compile(
    r"^\W*(?:ros|review of systems|constitutional|gen|general|heent|neck|lungs|abd|abdomen|ext)\b|\bexam\w*\s*:|"
    r"\b(?:vs|vitals?|vital signs)\b",
    re.IGNORECASE,
)
LAB_LINE = re.compile(
    r"^\s*(?:\[\*\*[^\]]*\*\*\]|_{3}|[\d/-]{6,10})\s*\d{1,2}:\d\d\s*(?:[AP]M)?\s+[A-Z][A-Za-z ()]*-", re.IGNORECASE
)
# A paragraph that begins by introducing the patient: outside the present illness it summarises the stay.
PERSON = re.compile(
    r"^\W*(?:(?:this is|in summary|briefly|pt is|patient is|mr|mrs|ms)\W+)?(?:an? )?\d{1,3}[ -]?"
    r"(?:yo|y/o|y\.o\.|yrs?[ -]old|years?[ -]old)[ -]?(?:\w+ ){0,2}"
    r"(?:man|woman|male|female|m|f|gentleman|lady|patient|pt)\b",
    re.IGNORECASE,
)


class Heading(NamedTuple):
    """The kind of a line's heading, the section that it opens, and the text after it."""

    kind: Kind
    section: str = ""
    rest: str = ""


class SectionEnd(NamedTuple):
    """Where in a line a section ends, and whether what follows was written after the stay."""

    at: int
    is_late: bool


def _known() -> dict[str, Heading]:
    """Every phrase of headings.yaml."""
    listed: dict[str, Any] = read_resource("palpate.data.hospitals", "headings.yaml")
    ending = {phrase: Heading(kind) for kind in ("other", "later") for phrase in listed[kind]}
    early = {phrase: Heading("early", key) for key, phrases in listed["early"].items() for phrase in phrases}
    keep = {phrase: Heading("keep", key) for key, phrases in listed["keep"].items() for phrase in phrases}
    return ending | early | keep


KNOWN = _known()
LONG = [phrase for phrase in KNOWN if len(phrase) >= 9]
SMALL = {"of", "on", "the", "and", "at", "by", "to", "in", "for", "or"}
BY_WORD = {word: [p for p in LONG if word in p.split()] for p_ in LONG for word in set(p_.split()) - SMALL}


def admission_note(text: str) -> str | None:
    """The admission note in a discharge summary, or None if no complaint, illness or history is left."""
    sections = admission_sections(text)
    if not any(key in sections for key in MAIN):
        return None
    return "\n\n".join(f"{title}: {sections[key]}" for key, title in ORDER.items() if key in sections)


def admission_sections(text: str) -> dict[str, str]:
    """The sections known at admission, by the keys of `ORDER`; the parts of a section that occurs twice are joined."""
    found: dict[str, list[str]] = {}
    for key, line in _kept_lines(text):
        found.setdefault(key, []).append(line)
    tidy = {key: re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip() for key, lines in found.items()}
    return {key: body for key, body in tidy.items() if re.search(r"\w", body)}


def _kept_lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of the wanted sections, each with its section."""
    section, is_late, in_review = "", False, False
    lines = text.splitlines()
    for previous, line, following in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        after_blank = not previous.strip()
        heading = _read_heading(line, after_blank=after_blank)
        # In the list of problems of a hospital course, "3. Allergies:" says what was done about them.
        is_item = not after_blank or LISTED.match(line) is not None
        is_open = bool(section) or not is_late
        in_review = is_open and _goes_on(line, previous, in_review=in_review)
        if heading is not None and heading.kind not in ("inside", "unknown"):
            is_late = is_late or heading.kind == "later"
            opens = not is_late or not is_item if heading.kind == "keep" else heading.kind == "early" and not is_late
            section, line = (heading.section, heading.rest) if opens else ("", "")
        elif is_open and _is_course(line, section, after_blank=after_blank, in_review=in_review):
            section, is_late = "", True
        elif section and LAB_LINE.match(line):
            section = ""
        end = _find_end(line, following, section) if section or not is_late else None
        if end is not None:
            line, is_late = line[: end.at], is_late or end.is_late
        if section:
            yield section, line.rstrip()
        if end is not None:
            section = ""


def _goes_on(line: str, previous: str, *, in_review: bool) -> bool:
    """Whether a line is in a list by organ system, which ends at a blank line that does not follow its heading."""
    if line.strip():
        return in_review or REVIEW.search(line) is not None
    return in_review and (not previous.strip() or previous.rstrip().endswith(":"))


def _is_course(line: str, section: str, *, after_blank: bool, in_review: bool) -> bool:
    """Whether a line opens a hospital course without a heading: by organ system, or by introducing the patient."""
    if after_blank and section not in ("", "complaint", "illness") and PERSON.match(line):
        return True
    found = SYSTEM.match(line)
    if found is None:
        return False
    if found["number"]:
        return True
    return bool(section) and section != "exam" and not in_review and found["stop"] is None


def _find_end(line: str, following: str, section: str) -> SectionEnd | None:
    """Where in a line the account of the end of the stay begins; a phrase may wrap into the next line."""
    whole = f"{line.rstrip()} {following.strip()}"
    low = whole.lower()
    ends = []
    if any(word in low for word in ("course", "discharge", "d/c", "dc")):
        ends.append((MIDLINE.search(line), True))
    if any(word in low for word in TRIGGERS):
        ends.append((PATIENT.search(whole), True))
        if section != "family":
            ends.append((DEATH.search(whole), True))
        if section not in ("family", "social"):
            ends.append((SOMEBODY.search(whole), True))
        if section:
            ends.append((WARD.search(whole), section not in MAIN))
    found = [
        SectionEnd(match.start(), is_late) for match, is_late in ends if match is not None and match.start() < len(line)
    ]
    return min(found, default=None)


def _read_heading(line: str, *, after_blank: bool) -> Heading | None:
    """The heading at the start of a line; None if there is none."""
    bare = line.strip().strip("*_= \t")
    stripped = NUMBERING.sub("", bare, count=1)
    if not stripped:
        return None
    split = WITH_COLON.match(stripped)
    if split is None:
        return _bare_heading(stripped, after_blank=after_blank)
    name, plain = split["name"], _plain(split["name"])
    if plain not in KNOWN and _is_sentence(name, after_blank=after_blank):
        return None
    heading = classify(plain)
    if heading.kind == "unknown":
        shouted = name.isupper() and " " in plain
        alone = after_blank and (not split["rest"].strip() or name.isupper() or name.istitle())
        return Heading("other") if stripped == bare and (shouted or alone) else None
    return heading._replace(rest=split["rest"].strip("*_= \t"))


def _is_sentence(name: str, *, after_blank: bool) -> bool:
    """Whether the words before a colon are prose rather than a heading."""
    return len(name.split()) > 8 or ". " in name or (name[0].islower() and not after_blank)


def _bare_heading(line: str, *, after_blank: bool) -> Heading | None:
    """A heading without a colon: a known phrase alone, a line in capitals, or a title about the end of the stay."""
    if len(line) > 60 or line[-1] in ",;.":
        return None
    plain = _plain(line)
    if len(plain) < 4:
        return None
    if plain in KNOWN and (after_blank or line[0].isupper()):
        return KNOWN[plain]
    n_words = len(plain.split())
    if line.isupper() and 2 <= n_words <= 6 and not re.search(r"\d", line):
        heading = classify(plain)
        return Heading("other") if heading.kind == "unknown" and after_blank else heading
    if n_words <= 5 and line.istitle() and LATER.search(plain):
        return Heading("later")
    return None


@lru_cache(maxsize=65536)
def classify(plain: str) -> Heading:
    """The kind of a heading, given its words in lower case without punctuation."""
    if plain in KNOWN:
        return KNOWN[plain]
    if LATER.search(plain):
        return Heading("later")
    if INSIDE.match(plain):
        return Heading("inside")
    if ENDING.search(plain):
        return Heading("other")
    near = _near(plain) if 8 <= len(plain) <= 60 else None
    return Heading("unknown") if near is None else KNOWN[near]


def _near(plain: str) -> str | None:
    """The known phrase that this is a misspelling of; one without a word in common must start and measure the same."""
    shared = {phrase for word in set(plain.split()) - SMALL for phrase in BY_WORD.get(word, ())}
    alike = (phrase for phrase in LONG if phrase[0] == plain[0] and abs(len(phrase) - len(plain)) <= 2)
    near = difflib.get_close_matches(plain, sorted(shared or alike), n=1, cutoff=0.87)
    return near[0] if near else None


def _plain(name: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9]+", " ", name.lower()).split())
