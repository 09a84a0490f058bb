"""Prior mentions: the paper's substrings, and mentions that are not denied."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb.mentions import find_mentions, label_phrases
from palpate.synthetic.patients.findings import labels

THIRTEEN = labels()


def found(text: str | None, label: str, rule: str = "substring", **more: object) -> int:
    return int(find_mentions([text], [label], rule=rule, **more)[0, 0])  # type: ignore[arg-type]


def test_every_label_has_phrases_in_lower_case_and_none_twice() -> None:
    assert tuple(label_phrases()) == THIRTEEN
    for phrases in label_phrases().values():
        assert len(set(phrases)) == len(phrases) > 1
        assert all(phrase == phrase.lower().strip() and len(phrase) > 2 for phrase in phrases)
        assert not [(one, other) for one in phrases for other in phrases if one != other and one in other]


@pytest.mark.parametrize("label", THIRTEEN)
def test_each_phrase_is_found_in_any_case_and_inside_words(label: str) -> None:
    for phrase in label_phrases()[label]:
        assert found(f"Admitted. PMH:{phrase.upper()}s, on treatment.", label) == 1
        assert found(f"History of a large {phrase}.", label, "affirmed") == 1
        first, _, rest = phrase.partition(" ")
        assert found(f"known {first}\n  {rest}", label) == 1  # broken over two lines
    assert found("Admitted for a sprained ankle.", label) == 0


@pytest.mark.parametrize(
    ("text", "affirmed"),
    [
        ("No evidence of pneumonia.", 0),
        ("Denies fever, cough, pneumonia or chills.", 0),
        ("Pneumonia was ruled out.", 0),
        ("CT negative for pneumonia", 0),
        ("No fever. Treated for pneumonia.", 1),
        ("No effusion but pneumonia on the right.", 1),
        ("No pneumonia on admission. Later developed pneumonia.", 1),
        ("Pneumonia, not severe.", 1),
        ("The patient noticed pneumonia-like symptoms", 1),  # "not" inside a word denies nothing
        ("No chest pain\n\nPneumonia: finished antibiotics", 1),
        ("no fever; pneumonia improving", 1),
        ("Not an elective admission, which was for pneumonia.", 1),
        ("CT negative for clots, positive for pneumonia.", 1),
        ("No change in the pneumonia.", 1),
        ("Not only pneumonia but effusion.", 1),
        ("There is no doubt that this is pneumonia.", 1),
        ("CXR: (-) pneumonia", 0),
        ("Pneumonia vaccine was given.", 0),
    ],
)
def test_denied_mentions_count_only_for_the_papers_rule(text: str, affirmed: int) -> None:
    assert found(text, "Pneumonia") == 1
    assert found(text, "Pneumonia", "affirmed") == affirmed


@pytest.mark.parametrize(
    ("text", "affirmed"),
    [
        ("Pneumonia: none", 0),
        ("Pneumonia: None.", 0),
        ("Pneumonia: No\nCough: yes", 0),
        ("Pneumonia:\n  No\nCough: yes", 0),
        ("pneumonia - absent", 0),
        ("Pneumonia – negative, afebrile", 0),
        ("Pneumonia (aspiration): denied", 0),
        ("Pneumonia history: none known", 0),
        ("Pneumonia or bronchitis: no", 0),
        ("Pneumonia = no; cough = yes", 0),
        ("Pneumonia? No.", 0),
        ("Pneumonia: not seen on CXR", 0),
        ("Pneumonia: No pneumonia.", 0),
        ("Pneumonia: no evidence of acute pneumonia on CT", 0),
        ("Pneumonia: no fever, pneumonia resolved", 1),
        ("Denies: fever, cough, pneumonia", 0),
        ("ROS negative for: cough, pneumonia", 0),
        ("Impression: pneumonia", 1),
        ("Pneumonia: yes", 1),
        ("Pneumonia: treated with antibiotics", 1),
        ("Pneumonia: no further antibiotics", 1),
        ("Pneumonia: no evidence of recurrence", 1),
        ("Pneumonia - resolved", 1),
        ("Pneumonia: none on the left, new on the right", 1),
        ("Fever: none\nPneumonia: yes", 1),
        ("Fever - none, pneumonia", 1),
        ("Fever? No. Pneumonia? Yes.", 1),
        ("Discharge diagnosis: pneumonia\nAllergies: none\nDiet: regular", 1),
        ("Discharge diagnosis: pneumonia\nComplications:\nNone", 1),
        ("Treated for pneumonia, complications: none", 1),
        ("No chest pain\nPneumonia: finished antibiotics", 1),
    ],
)
def test_an_answer_after_a_finding_is_about_that_finding(text: str, affirmed: int) -> None:
    assert found(text, "Pneumonia") == 1
    assert found(text, "Pneumonia", "affirmed") == affirmed


@pytest.mark.parametrize(
    ("text", "affirmed"),
    [
        ("Heart size is normal.", 0),
        ("Normal cardiac silhouette, large effusion.", 0),
        ("The cardiac silhouette is not significantly enlarged.", 0),
        ("Heart size is stable.", 0),
        ("The cardiac silhouette is moderately enlarged.", 1),
        ("Heart size increased, lungs clear.", 1),
    ],
)
def test_a_place_is_affirmed_only_where_it_is_said_to_be_abnormal(text: str, affirmed: int) -> None:
    assert found(text, "Cardiomegaly") == 1
    assert found(text, "Cardiomegaly", "affirmed") == affirmed


PAPER = {
    "Atelectasis": "bibasilar atelectasis. Atelectatic changes. Plate-like atelectases.",
    "Cardiomegaly": "cardiomegaly. Increased heart size. Cardiac enlargement. Enlarged cardiac size. Enlarged cardiac "
    "shadow. Enlarged cardiac contour. The cardiac silhouette is enlarged. Enlarged heart.",
    "Consolidation": "a consolidation. Consolidated lung. Consolidative process.",
    "Edema": "pulmonary edema. Heart failure. CHF. Vascular congestion. Pulmonary congestion. Vascular prominence.",
    "Enlarged Cardiomediastinum": "a wide cardiomediastinum. Widened mediastinal configuration. Widened mediastinal "
    "silhouette. Enlarged pericardial silhouette.",
    "Fracture": "rib fractures.",
    "Lung Lesion": "a nodular density. Nodular densities. Nodular opacity. Nodular opacities. Nodular opacification. A "
    "4 mm nodule. Cavitary lesion. Lung carcinoma. Lung neoplasm. Lung tumor.",
    "Lung Opacity": "an opacity. Decreased translucency. Airspace disease. Air-space disease. Air space disease. "
    "An infiltrate. Pulmonary infiltration. Interstitial markings. Interstitial pattern. Interstitial lung disease. "
    "Reticular pattern. Reticular markings. Reticulation. Parenchymal scarring. Peribronchial thickening.",
    "Pleural Effusion": "pleural fluid. An effusion.",
    "Pleural Other": "pleural thickening. Fibrothorax. Pleural scar. Pleural parenchymal scar. Pleuro-parenchymal "
    "scarring. Pleuro-pericardial scar.",
    "Pneumonia": "pneumonia.",
    "Pneumothorax": "a pneumothorax. Pneumothoraces.",
    "Support Devices": "permanent pacer. A PICC. Chest tube. Mechanical valve. Central venous catheter. Pacemaker. "
    "Spinal hardware. Shoulder arthroplasty. ICD. Defibrillator. Ventricular assist device. Mediport.",
}
"""Findings that the terms of the paper's Table A.15 find in the chest, a sentence each."""


@pytest.mark.parametrize("label", THIRTEEN)
def test_findings_of_the_papers_terms_are_found(label: str) -> None:
    for sentence in PAPER[label].split(". "):
        assert found(f"Imaging showed {sentence}", label) == 1, sentence
        assert found(f"Imaging showed {sentence}", label, "affirmed") == 1, sentence


def test_what_wards_write_is_known() -> None:
    assert found("Admitted with a CHF exacerbation.", "Edema") == 1
    assert found("Systolic heart failure, EF 25%.", "Edema") == 1
    assert found("CXR with a new right lower lobe opacity.", "Lung Opacity") == 1
    assert found("Leg edema, on stockings.", "Edema") == 0
    assert found("Thyroid nodules, fatty infiltration of the liver.", "Lung Lesion") == 0
    assert found("Thyroid nodules, fatty infiltration of the liver.", "Lung Opacity") == 0


def test_paragraphs_are_told_apart_and_any_of_them_mentions() -> None:
    assert found("No\n\npneumonia since 2019", "Pneumonia", "affirmed") == 1
    assert found("lower respiratory tract\n\ninfection", "Pneumonia") == 0
    texts = ["No pneumonia.\n\nWalks well.", "Walks well.\n\nHad pneumonia.", "Walks well.", "\n\n"]
    assert find_mentions(texts, ["Pneumonia"], rule="affirmed")[:, 0].tolist() == [0, 1, 0, -1]
    assert find_mentions(texts, ["Pneumonia"])[:, 0].tolist() == [1, 1, 0, -1]


def test_unknown_where_there_is_no_note_or_no_phrase() -> None:
    out = find_mentions([None, "  \n", "hernia and pneumonia"], ["Hernia", "Pneumonia"])
    assert out.tolist() == [[-1, -1], [-1, -1], [-1, 1]]
    own = find_mentions(["hernia", "pneumonia"], ["Hernia", "Pneumonia"], phrases={"Hernia": ["Hernia"]})
    assert own.tolist() == [[1, 0], [0, 1]]
    assert found("pneumonia", "Pneumonia", phrases={"Pneumonia": ["something else"]}) == 0


@given(st.lists(st.text(max_size=60), max_size=6))
def test_an_affirmed_mention_is_a_mention(parts: list[str]) -> None:
    text = " pneumonia ".join(parts)
    plain = find_mentions([text], THIRTEEN)
    affirmed = find_mentions([text], THIRTEEN, rule="affirmed")
    assert np.array_equal(plain == -1, affirmed == -1)
    assert np.all(affirmed <= plain)


@pytest.mark.parametrize("start", ["x", "x:", "x -\n"])
@pytest.mark.parametrize(
    "run", [" ", "-", "x", "word: no ", "\n", "\n ", "a\n", ": ", "no ", "pneumonia: ", "[ ] ", "[x]y "]
)
def test_long_runs_take_no_longer_than_their_length(start: str, run: str) -> None:
    """A table drawn in blanks or dashes must not hang the audit."""
    find_mentions(["pneumonia"], ["Pneumonia"], rule="affirmed")
    spent = []
    for times in (5_000, 40_000):
        tries = []
        for _ in range(2):
            begin = time.process_time()
            find_mentions([start + run * times + "pneumonia"], ["Pneumonia"], rule="affirmed")
            tries.append(time.process_time() - begin)
        spent.append(min(tries))
    assert spent[1] < 24 * max(spent[0], 0.05)  # 8 times the length: a quadratic search takes 64 times as long


@pytest.mark.parametrize(
    ("text", "pneumonia", "effusion"),
    [
        ("Pneumonia [ ]", 0, 0),
        ("Pneumonia [x]", 1, 0),
        ("[ ] Pneumonia", 0, 0),
        ("[X] pneumonia [ ] effusion", 1, 0),
        ("Pneumonia [ ] effusion [x]", 0, 1),
        ("- [ ] pneumonia\n- [x] effusion", 0, 1),
        ("Findings: ☐ pneumonia ☒ effusion", 0, 1),
        ("Pneumonia: [ ] yes [x] no", 0, 0),
        ("Pneumonia: [x] yes [ ] no", 1, 0),
        ("Pneumonia Y ( ) N (x)", 0, 0),
        ("Pneumonia Y (x) N ( )", 1, 0),
        ("Pneumonia [ ] yes [ ] no", 0, 0),
        ("Treated for pneumonia; consent signed [ ]", 1, 0),
        ("Pneumonia seen on film [**2101-3-4**]", 1, 0),
    ],
)
def test_boxes_are_mentions_where_they_are_ticked(text: str, pneumonia: int, effusion: int) -> None:
    out = find_mentions([text], ["Pneumonia", "Pleural Effusion"], rule="affirmed")
    assert out.tolist() == [[pneumonia, effusion]]
