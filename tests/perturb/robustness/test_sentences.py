"""Sentence by sentence: what is rewritten, and what is left alone."""

from __future__ import annotations

import pytest

from .made_notes import NOTE, changed, reason


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("brands", "He takes furosemide 40 mg.", "He takes Lasix 40 mg."),
        ("brands", "Furosemide and SERTRALINE daily.", "Lasix and ZOLOFT daily."),
        ("brands", "venlafaxine XR, tacrolimus ointment, digoxin level", None),
        ("brands", "furosemide (Lasix) daily", None),
        ("brands", "losartan-hydrochlorothiazide", None),
        ("generics", "She takes Tylenol. Tylenol helps.", "She takes acetaminophen. Acetaminophen helps."),
        ("generics", "He is well versed in this.", None),
        ("generics", "takes lasix 40mg po bid, Lipitor qhs", "takes furosemide 40mg po bid, atorvastatin qhs"),
        ("generics", "lasix daily", "furosemide daily"),
        ("generics", "Tylenol with codeine", None),
        ("british", "Anemia with edema and GERD.", "Anaemia with oedema and GERD."),
        ("british", "angioedema, Mercy Medical Center, characteristic organisms", None),
        ("british", "gastroesophageal reflux; hospitalized", "gastro-oesophageal reflux; hospitalised"),
        ("american", "haemorrhagic tumour; a hospitalist's analysis", "hemorrhagic tumor; a hospitalist's analysis"),
        ("american", "angioedema, paralysis, emphasis, organism", None),
        ("contractions", "She does not smoke and cannot walk.", "She doesn't smoke and can't walk."),
        ("contractions", "Do not resuscitate. DO NOT INTUBATE. I have a report. She would not.", None),
        ("no_contractions", "He doesn’t and can't.", "He does not and cannot."),
        ("no_contractions", "She's well; the patient's arm", None),
        ("full_forms", "Pt has HTN, s/p TIA.", "Patient has hypertension, status post transient ischemic attack."),
        ("full_forms", "He had a UTI and an MRI.", "He had a urinary tract infection and an MRI."),
        ("full_forms", "10 mg b.i.d. Return soon.", "10 mg twice daily. Return soon."),
        ("full_forms", "q.i.d. p.r.n. for itching", "q.i.d. as needed for itching"),
        ("full_forms", "stage IV, CVA tenderness, PT, COPD-related, CSF fluid, seen by GI", None),
        ("full_forms", "Will f/u with PCP.", "Will follow up with PCP."),
        ("full_forms", "F/u w/ PCP; needs f/u in a week.", "Follow up w/ PCP; needs follow-up in a week."),
        ("full_forms", "He should f/u here, f/u visit booked.", "He should follow up here, follow-up visit booked."),
        ("full_forms", "Aspirin d/c'd, pt d/c'd home.", "Aspirin discontinued, patient d/c'd home."),
        ("abbreviations", "History of hypertension and shortness of breath.", "History of HTN and SOB."),
        ("abbreviations", "chronic obstructive pulmonary disease (COPD)", None),
        ("abbreviations", "REVIEW OF SYSTEMS", None),
        ("dates", "Seen 03/25/2021.", "Seen March 25, 2021."),
        ("dates", "Seen 25/03/2021 and 04/05/2021.", "Seen March 25, 2021 and May 4, 2021."),
        ("dates", "Seen 04/05/2021, ratio 1/2/3, 13/13/2020.", None),
        ("dates", "On March 5th, 2021 and 6 Sept 2020.", "On 2021-03-05 and 2020-09-06."),
        ("numbers", "40 mg and 5mL", "40mg and 5 mL"),
        ("numbers", "platelets 26,000, dose .5 mg", "platelets 26000, dose 0.5 mg"),
        ("numbers", "for 3 days, two weeks", "for three days, 2 weeks"),
        ("numbers", "2 to 3 days, x 3 days, 6 years 5 months, 2-3 weeks, 120/80", None),
        ("tags", "Mr. Abbott saw Dr. Lane-Fox.", "Mr. ___ saw Dr. ___."),
        ("tags", "[**Name 3**] on ___", "___ on [REMOVED]"),
        ("punctuation", "No fever, chills, or cough.", "No fever, chills or cough"),
        ("punctuation", "Denies fever, chills, and reports cough today, 98.6", None),
        ("punctuation", "- item\n- it's", "* item\n* it’s"),
        ("punctuation", "+ cough\n- fever", None),
        ("spaces", "One. Two.", "One.  Two."),
        ("one_line", "Plan\n\n- rest\n", "Plan - rest\n"),
    ],
)  # fmt: skip
def test_one_sentence(name: str, text: str, expected: str | None) -> None:
    assert changed(name, text) == (text if expected is None else expected)
    assert (reason(name, text) is None) == (expected is not None)


def test_case_keeps_units_and_abbreviations_that_are_words() -> None:
    text = "Pt with ALL. Hgb 9 g/dL, 5 mL q6h, 10 µg at HOME."
    assert changed("case", text, group=0) == "pt with ALL. hgb 9 g/dL, 5 mL q6h, 10 µg at home."
    assert changed("case", text, group=1) == "PT WITH ALL. HGB 9 g/dL, 5 mL Q6H, 10 µG AT HOME.".replace("Q6H", "q6h")


def test_sections_trade_places_and_others_stay() -> None:
    new = changed("section_order", NOTE)
    assert new.index("FAMILY HISTORY") < new.index("SOCIAL HISTORY") < new.index("ALLERGIES") < new.index("ASSESSMENT")
    assert new.startswith("CHIEF COMPLAINT")
    assert reason("section_order", NOTE.replace("Penicillin.", "As noted above.")) == "a section points at another"
    assert reason("section_order", "ALLERGIES: none\nPLAN: rest") == "fewer than two sections whose order is free"


def test_a_denial_is_added_where_findings_are_denied_and_contradicts_nothing() -> None:
    for seed in range(30):
        new = changed("denial_added", NOTE, seed=seed)
        place = new.index("No orthopnea. No ")
        finding = new[place:].split("No ")[2].partition(".")[0]
        assert finding not in ("leg swelling", "diarrhea", "chest pain")
        assert new.replace(f" No {finding}.", "", 1) == NOTE
    family = "Mother died of a stroke. Father is well."
    assert reason("denial_added", family) == "no paragraph about the patient that ends with a full stop"


def test_denials_of_careless_notes_are_found() -> None:
    """Small letters, and "N/V" at the end of a sentence."""
    note = "sob x3d, worse with exertion. denies fevers, chills. takes lasix. lungs: crackles at the bases."
    assert changed("denial_removed", note) == note.replace("denies fevers, chills. ", "")
    new = changed("denial_added", note)
    assert new.startswith("sob x3d, worse with exertion. denies fevers, chills. No ")
    assert new.endswith(". takes lasix. lungs: crackles at the bases.")
    assert changed("denial_removed", "Drain 30 cc. No N/V. Plan: home.") == "Drain 30 cc. Plan: home."
    wrapped = "The wound was clean and there was\nno redness. He can walk."
    assert changed("denial_removed", wrapped) == wrapped


def test_a_denial_is_removed_whole() -> None:
    text = "He fell. He denies dizziness or syncope. He can walk."
    assert changed("denial_removed", text) == "He fell. He can walk."
    for kept in (
        "He fell. No change since then. He can walk.",
        "He fell. Denies pain but has swelling.",
        "Five brothers are healthy. Negative for stroke.",
        "ALLERGIES: No known allergies.",
        "He fell. No fracture in 2019.",
        "He fell. He has no visit with Dr. Lane. He walks.",
        "He fell. He denies pain. However, he limps.",
        "Lungs are clear. Resp. no distress. Neuro. no focal deficits.",
        "Extremities. No edema. Gait is normal.",
    ):
        assert changed("denial_removed", kept) == kept


def test_an_irrelevant_sentence_stands_at_the_end() -> None:
    assert changed("irrelevant", "He fell").startswith("He fell. ")
    assert changed("irrelevant", "PLAN\nRest.\n\n").startswith("PLAN\nRest.\n")
    assert reason("irrelevant", " \n") == "the note is empty"


@pytest.mark.parametrize("name", ["typos", "ocr"])
def test_short_notes_have_too_few_words_to_misspell(name: str) -> None:
    assert reason(name, "No 12 mg BP COPD left") == "too few words that may be misspelt"
