"""Whole answers: a choice counts where it is said, not where its word occurs."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.models.adapters.chat.options import ChatOptions
from palpate.models.adapters.chat.reading import readings
from palpate.models.adapters.chat.verdicts import Unreadable, read_choice, without_thoughts
from palpate.results.plan import AnswerKind
from tests.models.adapters.chat.answers_as_written import JSON, MISREAD, NO, NOTHING, REFUSED, UNREAD, YES
from tests.models.adapters.chat.answers_at_first_sight import FIRST, SECOND

YES_NO = {"yes": 1.0, "no": 0.0}
GERMAN, LETTERS, FRENCH = {"Ja": 1.0, "Nein": 0.0}, {"A": 1.0, "B": 0.0}, {"oui": 1.0, "non": 0.0}
RISKS = {"low risk": 0.1, "high risk": 0.9}


@pytest.mark.parametrize(
    ("answer", "choices", "wanted"),
    [
        ("I cannot say yes.", YES_NO, None),
        ("No evidence of pneumonia, so: Yes", YES_NO, 1.0),
        ("Yes and no", YES_NO, None),
        ("Yes/no", YES_NO, None),
        ("yes or no?", YES_NO, None),
        ("**Yes**", YES_NO, 1.0),
        ("```\nNo\n```", YES_NO, 0.0),
        ("I have no doubt: yes", YES_NO, 1.0),
        ("no - yes would be wrong", YES_NO, 0.0),
        ("The answer is YES.", YES_NO, 1.0),
        ("**No**, the patient is stable.", YES_NO, 0.0),
        ("Yes, there is no doubt.", YES_NO, 1.0),
        ("There is no indication that he returns.", YES_NO, None),
        ("There is no doubt he'll be readmitted", YES_NO, None),
        ("The answer is no because he is stable", YES_NO, 0.0),
        ("Is it pneumonia? No. Readmitted? Yes.", YES_NO, None),
        ("Is it pneumonia? No. Final answer: Yes.", YES_NO, 1.0),
        ("The patient said no.", YES_NO, None),
        ("I would not say yes", YES_NO, None),
        ("I wouldn't say no", YES_NO, None),
        ("If febrile, yes; otherwise no.", YES_NO, None),
        ("Yes the patient will return", YES_NO, 1.0),
        ("No the patient is well", YES_NO, 0.0),
        ("No evidence of that.", YES_NO, None),
        ("Ja.", GERMAN, 1.0),
        ("Die Antwort ist Nein.", GERMAN, 0.0),
        ("Ich kann nicht Ja sagen", GERMAN, None),
        ("A patient with vitamin A", LETTERS, None),
        ("Answer: B)", LETTERS, 0.0),
        ("(A)", LETTERS, 1.0),
        ("", YES_NO, None),
        ("Maybe", YES_NO, None),
        ("nothing known", YES_NO, None),
        ("Answer: **Yes**\n\nReasoning: no fever, no cough.", YES_NO, 1.0),
        ("Not yes.", YES_NO, None),
        ("Yes. Yes.", YES_NO, 1.0),
        ("yes no yes", YES_NO, None),
        ("\\boxed{yes}", YES_NO, 1.0),
        ("Likely yes", YES_NO, 1.0),
        ("Probably not", YES_NO, 0.0),
        ("Probably.", YES_NO, 1.0),
        ("Definitely!", YES_NO, 1.0),
        ("Almost certainly.", YES_NO, 1.0),
        ("Almost certainly not.", YES_NO, 0.0),
        ("**Very likely**", YES_NO, 1.0),
        ("Highly unlikely.", YES_NO, 0.0),
        ("Most likely not.", YES_NO, 0.0),
        ("I think so.", YES_NO, 1.0),
        ("I don't believe so.", YES_NO, 0.0),
        ("Nah", YES_NO, 0.0),
        ("Yup.", YES_NO, 1.0),
        ("Probably?", YES_NO, None),
        ("Not definitely.", YES_NO, None),
        ("Likely not.", YES_NO, None),
        ("Very likely, but it depends", YES_NO, None),
        ("Definitely.", GERMAN, None),
        ("Probably not pneumonia", YES_NO, None),
        ("Definitely not, if he is adherent", YES_NO, None),
        ("True, he has a fever", YES_NO, None),
        ("If he stops, yes. Otherwise, no.", YES_NO, None),
        ("No.\n\nReasoning: Yes, he has diabetes.", YES_NO, 0.0),
        ("No.\n\nReasoning: he is frail. Final answer: Yes", YES_NO, 1.0),
        ("The answer to this question is: NO", YES_NO, 0.0),
        ("Answer with yes or no: no", YES_NO, 0.0),
        ("I cannot answer with yes or no: no", YES_NO, None),
        ("I'd say no.", YES_NO, 0.0),
        ("Yes!", YES_NO, 1.0),
        ("I'm not sure, but yes", YES_NO, 1.0),
        ("It is unclear whether yes or no", YES_NO, None),
        ("'Yes'", YES_NO, 1.0),
        ("Yes — high risk", YES_NO, 1.0),
        ("YES\nNO", YES_NO, None),
        ("low risk", RISKS, 0.1),
        ("The risk is not high; low risk.", RISKS, 0.1),
        ("No, no, no.", YES_NO, 0.0),
        ("Answer=Yes", YES_NO, 1.0),
        ("oui", FRENCH, 1.0),
        ("Yes if febrile", YES_NO, None),
        ("no comment", YES_NO, None),
        ("No.", YES_NO, 0.0),
        ("No comment.", YES_NO, None),
        ("No idea", YES_NO, None),
        ("yes yes", YES_NO, 1.0),
        ("<think>no, or yes?</think>\nyes", YES_NO, 1.0),
        ("<think>yes yes, I think yes", YES_NO, None),
        ("thinking aloud: yes</think>No.", YES_NO, 0.0),
        ("Yes — but I cannot be sure, no.", YES_NO, None),
        ("  yes  ", YES_NO, 1.0),
        ("> Yes", YES_NO, 1.0),
        ("| Yes |", YES_NO, 1.0),
    ],
)
def test_whole_answers(answer: str, choices: dict[str, float], wanted: float | None) -> None:
    if wanted is None:
        with pytest.raises(Unreadable):
            read_choice(without_thoughts(answer), choices)
    else:
        assert read_choice(without_thoughts(answer), choices) == wanted


def test_answers_as_chat_models_write_them() -> None:
    wrong = []
    for answers, wanted in ((YES, 1.0), (NO, 0.0), (NOTHING, None)):
        for answer in answers:
            try:
                found: float | None = read_choice(without_thoughts(answer), YES_NO)
            except Unreadable:
                found = None
            if found != wanted:
                wrong.append((answer, wanted, found))
    assert not wrong
    assert len(YES) + len(NO) + len(NOTHING) + len(MISREAD) + len(UNREAD) + len(JSON) > 440


@pytest.mark.parametrize(("answers", "n_unread"), [(FIRST, 0), (SECOND, 2)])
def test_no_answer_is_taken_for_another(answers: list[tuple[str, str]], n_unread: int) -> None:
    """An answer that is not read is better than one that is read wrongly, of which there are none here."""
    own = ChatOptions(api="chat", model="m", prompt="{text}")
    unread = []
    for wanted, answer in answers:
        (found,) = readings({"choices": [{"message": {"content": answer}}]}, own, ["ill"])
        said = {1.0: "yes", 0.0: "no"}.get(found.p) or (
            "refusal" if found.outcome == AnswerKind.REFUSED else "unreadable"
        )
        if said != wanted:
            assert (wanted in ("yes", "no"), said) == (True, "unreadable"), answer
            unread.append(answer)
    assert len(unread) == n_unread


@pytest.mark.parametrize(("answer", "wanted"), JSON)
def test_an_object_behind_a_refusal_is_none(answer: str, wanted: float | str | None) -> None:
    own = ChatOptions(api="chat", model="m", prompt="{text}", parser="json")
    (found,) = readings({"choices": [{"message": {"content": answer}}]}, own, ["ill"])
    if isinstance(wanted, float):
        assert found.p == wanted
    else:
        assert found.outcome == (AnswerKind.REFUSED if wanted == REFUSED else AnswerKind.UNREADABLE)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part", ["not a ", "with it ", ", sorry but ", "and so as ", "unable without ", "it cannot be "]
)
def test_long_answers_are_read_in_no_time(part: str) -> None:
    for word in ("Yes ", "Yes, ", "Yes. "):
        with suppress(Unreadable):
            read_choice(word + part * 2000, YES_NO)


@given(
    st.sampled_from(["yes", "no"]), st.sampled_from(["", "**", '"', "`", "*"]), st.sampled_from(["", ".", "!", "\n"])
)
def test_a_bare_choice_is_read_however_it_is_marked(word: str, mark: str, end: str) -> None:
    for written in (word, word.upper(), word.capitalize()):
        assert read_choice(f"{mark}{written}{end}{mark}", YES_NO) == YES_NO[word]


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(Unreadable):
        assert read_choice(without_thoughts(text), YES_NO) in (0.0, 1.0)


@given(
    st.sampled_from(["cannot", "can't", "would not", "won't", "am unable to", "could never"]),
    st.sampled_from(["yes", "no"]),
)
def test_a_denied_choice_is_none(denial: str, word: str) -> None:
    with pytest.raises(Unreadable):
        read_choice(f"I {denial} say {word}.", YES_NO)
