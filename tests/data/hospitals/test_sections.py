"""Admission notes: what was known at admission stays, and nothing of how the stay went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.hospitals.sections import KNOWN, ORDER, admission_note, admission_sections

OLD_STYLE = """Admission Date:  [**2118-6-2**]       Discharge Date:  [**2118-6-14**]

Date of Birth:                    Sex:  F

Service:  MICU and then to [**Doctor Last Name **] Medicine

HISTORY OF PRESENT ILLNESS:  This is an 81-year-old female
with emphysema, who presents with three days of dyspnea.  She was discharged from
[**Hospital**] two weeks ago: on prednisone.

In the ED, initial vitals: T 98, HR 120.
REVIEW OF SYSTEMS:  negative

PAST MEDICAL HISTORY:
1. COPD: last tests in spring
2. Lacunar CVA.

SOCIAL HISTORY:  Divorced.

ALLERGIES:  Norvasc.

MEDICATIONS:  Aspirin 81 mg

PHYSICAL EXAM:  Temperature 97.9
HEENT:  PERRL, no discharge
NECK: supple
EXT:
warm
Discharge exam: SECRET

LABORATORY DATA:  SECRET

HOSPITAL COURSE:
1. COPD exacerbation: SECRET

PHYSICAL EXAM:  SECRET
Medications: SECRET
DISCHARGE MEDICATIONS: SECRET
CONDITION ON DISCHARGE:  SECRET
"""
NEW_STYLE = """Name:  [**Known lastname **]

Chief Complaint:
fall

Major Surgical or Invasive Procedure:
SECRET

History of Present Illness:
45M s/p fall. On arrival to the ED: stable.

Past Medical History:
HTN

Family History:
Father: MI at 60

Physical Exam:
ADMISSION EXAM:
Vitals: 98.6 80 120/70
Lungs: clear

DISCHARGE EXAM:
SECRET

Pertinent Results:
SECRET

Brief Hospital Course:
# Fall: SECRET

Medications on Admission:
lisinopril 10 mg daily

Discharge Medications:
SECRET

Discharge Disposition:
SECRET
"""


def test_old_style() -> None:
    found = admission_sections(OLD_STYLE)
    assert set(found) == {"illness", "history", "social", "allergies", "medications", "exam"}
    assert found["illness"].endswith("REVIEW OF SYSTEMS:  negative")
    assert found["history"] == "1. COPD: last tests in spring\n2. Lacunar CVA."
    assert found["exam"] == "Temperature 97.9\nHEENT:  PERRL, no discharge\nNECK: supple\nEXT:\nwarm"
    assert "SECRET" not in str(found)


def test_new_style_in_the_fixed_order() -> None:
    assert admission_note(NEW_STYLE) == (
        "CHIEF COMPLAINT: fall\n\n"
        "PRESENT ILLNESS: 45M s/p fall. On arrival to the ED: stable.\n\n"
        "MEDICAL HISTORY: HTN\n\n"
        "MEDICATIONS ON ADMISSION: lisinopril 10 mg daily\n\n"
        "PHYSICAL EXAM: Vitals: 98.6 80 120/70\nLungs: clear\n\n"
        "FAMILY HISTORY: Father: MI at 60"
    )


@pytest.mark.parametrize(
    "heading",
    [
        *(
            "HPI:",
            "HISTORY OF PRESENT ILLNESS:",
            "History of Present Illness :",
            "history of the present illness:",
            "HPI :",
        ),
        *("*History of Present Illness*:", "History of Present Illnes:", "Histroy of present illness:", "HPI -- "),
        *("HISTORY OF PRESENT ILLNESS", "  History of Present Illness:", "III. HISTORY OF PRESENT ILLNESS:"),
    ],
)
def test_spellings(heading: str) -> None:
    text = f"Chief Complaint:\npain\n\n{heading}\nfell\n\nHospital Course:\nSECRET"
    assert admission_sections(text) == {"complaint": "pain", "illness": "fell"}


@pytest.mark.parametrize(
    "line",
    [
        *("HOSPITAL COURSE: X", "Brief Hospital Course:", "ICU course: X", "Hospital course by systems:", "Course:"),
        *("fine.  HOSPITAL COURSE:  X", "and then. Discharge Medications: X", "On discharge: X", "At discharge, X"),
        *(
            "Discharge",
            "D/C exam: X",
            "DISPOSITION",
            "Follow-up Instructions:",
            "Addendum:",
            "Discharge Condition",
            "DC:",
        ),
        *("Hopsital Course:", "Dishcarge Medications:", "Summary of stay:", "SOMETHING ELSE", "Something else:"),
        *("===== ADDENDUM =====", "===== FURTHER DISCHARGE SUMMARY =====", "4. Discharge medications:", "Condition: X"),
    ],
)
@pytest.mark.parametrize("section", ["HPI", "Physical Exam", "Past Medical History"])
def test_what_ends_a_section(line: str, section: str) -> None:
    found = admission_sections(f"CC:\npain\n\n{section}:\nearly words\n\n{line}\nSECRET\nSECRET again")
    assert "SECRET" not in str(found)
    assert "X" not in str(found)
    assert "early words" in str(found)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "HEENT: clear",
            "no purulent discharge",
            "He was discharged home on Monday.",
            "ABDOMEN: soft",
            "1. CAD: stents",
        ),
        *("was well until then: no fever", "Lungs:", "BP: 120/80", "Vitals on transfer: 98.6", "Mother: CAD"),
    ],
)
def test_what_does_not(line: str) -> None:
    found = admission_sections(f"HPI:\nearly words\n{line}\nlater words\n\nLabs:\nSECRET")
    assert found == {"illness": f"early words\n{line}\nlater words"}


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no headings at all", "Allergies: none", "HPI:\n\n\nHospital Course: long"]
)
def test_nothing_left(text: str) -> None:
    assert admission_note(text) is None


OPENING = "Chief Complaint:\nchest pain\n\nHistory of Present Illness:\nA man with CAD.\n"
EXAM = OPENING + "\nPhysical Exam:\nVS 98\n"
PAST = OPENING + "\nPast Medical History:\n1. CAD\n"


@pytest.mark.parametrize(
    "text",
    [
        OPENING + "In the MICU, SECRET he was made CMO and passed.\n",
        OPENING + "He was made CMO SECRET.\n",
        OPENING + "Family chose comfort measures only. SECRET\n",
        OPENING + "He passed\naway SECRET.\n",
        OPENING + "She was pronounced SECRET.\n",
        OPENING + "Pronounced dead SECRET.\n",
        OPENING + "Time of death SECRET\n",
        OPENING + "He expired SECRET\n",
        OPENING + "She was transferred to the floor. SECRET\n",
        OPENING + "She was transferred to the\nfloor. SECRET\n",
        OPENING + "He was extubated SECRET\n",
        OPENING + "She fell on hospital\nday 3 SECRET\n",
        OPENING + "\nPOD#1 SECRET extubated\n",
        OPENING + "POD 1 SECRET\n",
        OPENING + "On postoperative day two SECRET\n",
        OPENING + "\nCARDIOVASCULAR:  SECRET bypass on hospital day 3\n",
        OPENING + "REVIEW OF SYSTEMS: negative\n\nCARDIOVASCULAR:  SECRET bypass\n",
        OPENING + "\nSocial History:\nsmoker\n\n78 yo man admitted with SECRET, he expired on [**2145-1-1**]\n",
        OPENING + "\nSocial History:\nsmoker\n\nRespiratory: SECRET\n",
        EXAM + "\nOn day of discharge\nVS SECRET\n",
        EXAM + "Well on the day of discharge SECRET\n",
        EXAM + "\nOn the day of discharge: VS SECRET\n",
        EXAM + "Expiration exam: SECRET\n",
        EXAM + "Exam at time of death: SECRET pupils fixed\n",
        EXAM + "\n1. Respiratory: The infant was intubated and SECRET\n2. Cardiovascular: SECRET\n",
        EXAM + "\n1. Respiratory: none\n\nMedications: SECRET\n",
        PAST + "\n[**2145-1-1**] 10:00AM BLOOD WBC-SECRET\n",
        PAST + "\nDeath note: SECRET\n",
        PAST + "His mother expired SECRET\n",
        OPENING + "\nFamily History:\nfather died at 60\n\nThe patient expired SECRET\n",
    ],
)
def test_text_from_after_admission_is_cut(text: str) -> None:
    found = admission_sections(text)
    assert "SECRET" not in str(found)
    assert found["complaint"] == "chest pain"
    assert found["illness"].startswith("A man with CAD.")


@pytest.mark.parametrize(
    ("section", "body"),
    [
        ("Family History", "Father died at 60, mother expired of CAD, brother passed away."),
        ("Family History", "Sister was made comfort measures only and pronounced dead."),
        ("Social History", "Widowed, husband passed away in spring."),
        (
            "Physical Exam",
            "HEENT: clear\nRespiratory: clear\n\nCARDIOVASCULAR: regular\nNeuro: weakness, more pronounced on left",
        ),
        ("HPI", "REVIEW OF SYSTEMS:\nCARDIOVASCULAR: no pain\nRespiratory: prolonged expiratory phase"),
    ],
)
def test_what_the_words_of_death_and_systems_leave(section: str, body: str) -> None:
    found = admission_sections(f"CC:\npain\n\n{section}:\n{body}\n\nLabs:\nSECRET")
    assert body.replace("\n\n", "\n") in found.values()


def test_a_word_of_the_ward_in_the_history_leaves_the_exam() -> None:
    found = admission_sections("HPI:\nPain. He was transferred to the floor.\n\nPhysical Exam:\nVS 98\n")
    assert found == {"illness": "Pain. He was", "exam": "VS 98"}


# --- drawn notes: no word of a later section is ever kept ------------------------------------------------------------

KEPT = sorted(phrase for phrase, heading in KNOWN.items() if heading.kind == "keep" and len(phrase) > 3)
EARLY = sorted(phrase for phrase, heading in KNOWN.items() if heading.kind == "early" and len(phrase) > 3)
LATER = sorted(phrase for phrase, heading in KNOWN.items() if heading.kind == "later")
SECTION = {phrase: heading.section for phrase, heading in KNOWN.items()}


@st.composite
def spelled(draw: st.DrawFn, phrase: str, late: bool) -> str:
    """A heading as people write it: any case, a colon with or without a blank, numbers before it."""
    shape = draw(st.sampled_from([str.upper, str.title, str.capitalize]))
    end = draw(st.sampled_from([":", " :", ":  ", ""]))
    return draw(st.sampled_from(["", "", " ", "*"] if late else ["", " ", "2. ", "*"])) + shape(phrase) + end


@st.composite
def slipped(draw: st.DrawFn, phrase: str) -> str:
    """The same with a letter lost, doubled or swapped."""
    at = draw(st.integers(1, len(phrase) - 2))
    kind = draw(st.sampled_from(["lost", "doubled", "swapped"]))
    if kind == "lost":
        return phrase[:at] + phrase[at + 1 :]
    if kind == "doubled":
        return phrase[:at] + phrase[at] + phrase[at:]
    return phrase[:at] + phrase[at + 1] + phrase[at] + phrase[at + 2 :]


bodies = st.lists(
    st.sampled_from(["stable", "fever of 101", "aspirin 81 mg daily", "- denies pain", "1. COPD", "BP: 120/80"]),
    max_size=4,
)


@given(data=st.data())
def test_no_later_text_is_kept(data: st.DataObject) -> None:
    lines, wanted, is_late = ["Admission Date: 1 Discharge Date: 2", ""], [], False
    for k in range(data.draw(st.integers(1, 10))):
        kind = data.draw(st.sampled_from(["keep", "early", "later"]))
        phrase = data.draw(st.sampled_from({"keep": KEPT, "early": EARLY, "later": LATER}[kind]))
        is_late = is_late or kind == "later"
        known = kind == "keep" or (kind == "early" and not is_late)
        word = f"known{k}" if known else f"secret{k}"
        if known:
            wanted.append((SECTION[phrase], word))
        lines += [
            data.draw(spelled(phrase, is_late and kind == "keep")),
            *data.draw(bodies),
            f"some {word} words",
            *data.draw(bodies),
            "",
        ]
    found = admission_sections("\n".join(lines))
    assert "secret" not in str(found)
    for section, word in wanted:
        assert word in found[section]


@given(data=st.data())
def test_no_later_text_is_kept_behind_a_slip(data: st.DataObject) -> None:
    lines = []
    for k in range(data.draw(st.integers(1, 8))):
        is_later = data.draw(st.booleans())
        phrase = data.draw(st.sampled_from([p for p in (LATER if is_later else KEPT) if len(p) > 8]))
        heading = data.draw(slipped(phrase).map(str.title)) + ":"
        lines += [heading, f"some {'secret' if is_later else 'known'}{k} words", ""]
    assert "secret" not in str(admission_sections("\n".join(lines)))


@given(text=st.text(max_size=300))
def test_any_text_is_cut_without_an_error(text: str) -> None:
    found = admission_sections(text)
    assert set(found) <= set(ORDER)
