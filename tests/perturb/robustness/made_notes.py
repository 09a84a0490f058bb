"""Notes for the tests, written for palpate, and a strategy that makes further ones from their pieces."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from palpate.cases.edits import Edit, splice
from palpate.perturb.robustness import BUILT_IN, WrittenNote, note_stream, perturbed

NOTE = """CHIEF COMPLAINT

Chest tightness.

HPI:
Mr. Abbott is a 63 year old man with hypertension, COPD and chronic kidney disease, seen on 03/25/2021. He takes
furosemide 40 mg daily, Lipitor, and 2 tablets of aspirin. He does not smoke. He denies swelling. No orthopnea.

ALLERGIES
Penicillin.

FAMILY HISTORY
Mother had anemia and diarrhea.

SOCIAL HISTORY
Retired teacher, lives with his wife.

ASSESSMENT
- Stable angina.
- Follow up as needed in 3 months.
"""
PIECES = (
    *(
        "The patient",
        "Pt",
        "denies",
        "no",
        "fever",
        "edema",
        "furosemide",
        "Lasix",
        "40 mg",
        "1,200 mL",
        ".5 mg",
        "3 days",
    ),
    *(
        "two weeks",
        "COPD",
        "h/o",
        "hypertension",
        "do not",
        "don't",
        "03/25/2021",
        "2021-03-25",
        "March 5, 2021",
        "x 3 days",
    ),
    *(
        "[**Name 12**]",
        "___",
        "Dr. Marsh",
        "anaemia",
        "hemorrhagic",
        "BP 120/80",
        "µg",
        "ALL",
        "pH 7.4",
        "No rash.",
        "b.i.d.",
    ),
    *(
        "REVIEW OF SYSTEMS:",
        "Allergies:",
        "Family History:",
        "FAMILY HISTORY",
        "- item",
        "a UTI",
        "an MRI",
        "ß",
        "é",
        "’s",
    ),
    *(
        "reports",
        "significant",
        "swelling",
        "tenderness",
        "without",
        "left",
        "shortness of breath",
        "mail@example.org",
        "+ cough",
    ),
)
TEXTS = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from((" ", "  ", ", ", ". ", "\n", "\n\n", ".\n", "-", "/", ": "))),
    max_size=60,
).map(lambda parts: "".join(piece + joint for piece, joint in parts))
ANY_TEXTS = st.one_of(TEXTS, st.text(max_size=300))


def perturb(name: str, text: str, seed: int = 0) -> list[list[Edit]] | str:
    """What a perturbation does to a text."""
    note = WrittenNote(text)
    return perturbed(BUILT_IN[name], note, note_stream(seed, BUILT_IN[name], note))


def changed(name: str, text: str, *, seed: int = 0, group: int = -1) -> str:
    """The text as one perturbation writes it; unchanged where it can't."""
    edits = perturb(name, text, seed)
    return text if isinstance(edits, str) else splice(text, edits[group])


def reason(name: str, text: str) -> str | None:
    """Why a text can't be perturbed."""
    edits = perturbed(BUILT_IN[name], WrittenNote(text), np.random.default_rng(0))
    return edits if isinstance(edits, str) else None
