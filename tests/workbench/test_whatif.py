"""What if: the pages' numbers are the models' own, changes do what they say, and nothing is stored unless asked."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import palpate
from palpate.cases.edits import Edit, splice
from palpate.errors import InputError
from palpate.workbench.notes import AlteringOptions
from palpate.workbench.whatif import compare, highlights
from palpate.workbench.whatif.answers import ModelAnswer, WordWeights, word_spans
from palpate.workbench.whatif.changes import (
    MOST_COMPARED,
    WantedChange,
    change_note,
    common_words,
    difference_edits,
    differences,
    sentences,
)
from palpate.workbench.whatif.playground import fill_template

from .server import Member, Served

NOTE = "63 year old man with cough and sepsis. Temp 98.6. He is Stable.\nFever since Monday"


def numbers(page: str) -> list[float]:
    return [float(found) for found in re.findall(r'data-p="([^"]+)"', page)]


def ask(member: Member, **fields: object) -> str:
    answer = member.send("/whatif", note=NOTE, **fields)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_answers_are_those_of_the_models(served: Served, project: Path) -> None:
    member = served.member("Ann", "viewer")
    page = ask(member, word="fever", replacement="chills", to="gender=female", sentence="temp", highlights="1")
    changed = "63 year old woman with cough and sepsis. She is Stable.\nChills since Monday"
    wanted = []
    for name in ("lr", "small"):
        model = palpate.load_model(f"palpate:{project}/models/{name}")
        wanted += model.predict([NOTE, changed]).ravel().tolist()
    assert numbers(page) == wanted  # to the last bit
    assert "Places where the word was changed: 1." in page
    assert "Sentence 2 was left out" in page
    assert "What lr looks at" in page


def test_nothing_is_stored_unless_asked(served: Served) -> None:
    ann, bob = served.member("Ann", "viewer"), served.member("Bob", "viewer")
    ask(ann, word="fever", replacement="chills")
    stored = b"".join(path.read_bytes() for path in served.options.home.iterdir())
    assert b"sepsis" not in stored
    ann.send("/whatif/keep", title="Mine", note=NOTE, changed="other")
    assert "Mine" in ann.get("/whatif").text
    assert "since Monday" in ann.get("/whatif/kept/1").text
    assert bob.get("/whatif/kept/1").status_code == 404
    assert bob.send("/whatif/kept/1/forget").status_code == 404
    ann.send("/whatif/kept/1/forget")
    assert ann.get("/whatif/kept/1").status_code == 404
    assert "sepsis" not in served.logged()


@pytest.mark.parametrize("show", [False, True])
def test_notes_of_the_cohort_are_chosen_only_if_shown(project: Path, tmp_path: Path, show: bool) -> None:
    with Served(project / "run", folder=tmp_path / "bench", show_notes=show) as served:
        member = served.member("Ann", "viewer")
        assert ("secretnote2" in member.get("/whatif?case=c2").text) is show
        assert "secretnote" not in served.logged()
        if show:
            assert member.get("/whatif?case=nobody").status_code == 400
            assert "secretnote" in member.get("/whatif?case=random").text


def test_script_in_a_note_is_text(served: Served) -> None:
    member = served.member("Ann", "viewer")
    page = member.send("/whatif", note="<script>alert(1)</script> fever", word="fever", replacement="<img src=x>").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"note": " "}, "Write or choose a note"),
        ({"to": "gender=robot"}, "no group"),
        ({"to": "shoes=red"}, "unknown characteristic"),
        ({"sentence": "99"}, "sentences in the note is 4"),
        ({"sentence": "unicorn"}, "No sentence"),
        ({"threshold": "2"}, "from 0 to 1"),
        ({"threshold": "nan"}, "from 0 to 1"),
        ({"note": "x" * 100_001}, "more than 100,000"),
    ],
)
def test_what_is_wrong_is_said(served: Served, fields: dict[str, str], says: str) -> None:
    answer = served.member("Ann", "viewer").send("/whatif", **{"note": NOTE, **fields})
    assert answer.status_code == 400
    assert says in answer.text


def test_thresholds_and_crossings() -> None:
    answer = ModelAnswer("m", ("a", "b"), np.asarray([[0.4, 0.9], [0.6, 0.2]]), 0.5, False, 0.01)
    rows = compare([answer, answer._replace(problem="no")])
    assert [(row.label, row.crossing) for row in rows] == [("a", "up"), ("b", "down")]
    assert rows[0].change == pytest.approx(0.2)
    many = ModelAnswer("m", tuple("abcdefghijklmno"), np.zeros((2, 15)), 0.5, False, 0.0)
    assert len(compare([many])) == 10


def test_a_word_that_matters_is_highlighted(served: Served) -> None:
    from palpate.workbench.whatif import models_of

    found = models_of(served.bench).weights("lr", NOTE, 0)
    assert found is not None
    words = {NOTE[s:e]: score for s, e, score in zip(found.start, found.end, found.score, strict=True)}
    model = served.bench.shared["models"]
    for word in ("sepsis", "Stable"):
        with_it, without = model.ask([NOTE, NOTE.replace(word, "")])[0].p[:, 0]
        assert words[word] == pytest.approx(with_it - without)
    assert words["sepsis"] > 0 > words["Stable"]
    assert models_of(served.bench).weights("nobody", NOTE, 0) is None


@given(st.text(max_size=80))
def test_pieces_make_the_text_again(text: str) -> None:
    start, end = word_spans(text)
    score = np.linspace(-1, 1, len(start))
    assert "".join(part.text for part in highlights(text, WordWeights("occlusion", start, end, score))) == text


@given(st.text(alphabet="ab. \n", max_size=40), st.text(alphabet="ab. \n", max_size=40))
def test_differences_turn_one_text_into_the_other(note: str, changed: str) -> None:
    assert splice(note, difference_edits(note, changed)) == changed


@given(st.text(alphabet="ab. \n", max_size=40), st.sampled_from("ab"), st.text(alphabet="ab. ", max_size=4))
def test_known_edits_turn_what_was_written_into_what_is_asked(note: str, word: str, replacement: str) -> None:
    written = note.replace("ab", "b a ") + " z"
    changed = change_note(written, WantedChange(word, replacement, sentence="1"))
    assert splice(written, changed.edits) == changed.text
    parts = differences(note, written, changed)
    assert "".join(part.text for part in parts if part.kind != "removed") == changed.text
    assert "".join(part.text for part in parts if part.kind != "added") == note


def test_one_word_of_a_long_note_is_one_edit() -> None:
    start = "The patient was stable, and slept.\n\n" * 700
    note = f"{start}Fever since Monday.\n{start}"
    wanted = [Edit(len(start), len(start) + 5, "Chills")]
    assert difference_edits(note, note.replace("Fever", "Chills")) == wanted
    assert list(change_note(note, WantedChange("fever", "chills")).edits) == wanted
    assert difference_edits("no cough\n", "no cough\n\n") == [Edit(8, 9, "\n\n")]


class CountedWord(str):
    """A word that counts how often words are compared."""

    __slots__ = ()
    n = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedWord.n += 1
        return str.__eq__(self, other)


def test_a_crafted_note_is_one_block_after_few_comparisons() -> None:
    note, changed = "x" * 48_000 + "\n" * 12_000, "y\n" + "\n" * 12_000
    assert len(difference_edits(note, changed)) == 1
    note, changed = "a b " * 12_000, "c a d " * 8_000
    assert len(difference_edits(note, changed)) == 1
    CountedWord.n = 0
    assert common_words([*map(CountedWord, note.split())], [*map(CountedWord, changed.split())]) == []
    assert 0 < CountedWord.n <= 2 * MOST_COMPARED


@given(st.text(alphabet="aB1. \n!?", max_size=60))
def test_sentences_do_not_overlap(text: str) -> None:
    found = sentences(text)
    assert all(a < b <= c for (a, b), (c, _) in pairwise(found))
    covered = "".join(text[a:b] for a, b in found)
    assert sum(c.isalnum() for c in covered) == sum(c.isalnum() for c in text)


def test_titles_and_times_end_no_sentence() -> None:
    text = "Seen by Dr. Smith at 5 p.m. today. Mr. Jones is well.\nTemp 98.6. Home!"
    cut = [text[a:b].strip() for a, b in sentences(text)]
    assert cut == ["Seen by Dr. Smith at 5 p.m. today.", "Mr. Jones is well.", "Temp 98.6.", "Home!"]


def test_words_inside_hyphenated_ones_stay() -> None:
    wanted = WantedChange(word="smoker", replacement="drinker")
    changed = change_note("Smoker; non-smoker, ex-smoker's wife a smoker.", wanted)
    assert changed.text == "Drinker; non-smoker, ex-smoker's wife a drinker."
    assert change_note("pain-free, no pain", WantedChange(word="pain", replacement="ache")).text == "pain-free, no ache"


def test_changes_are_made_one_after_the_other() -> None:
    changed = change_note(NOTE, WantedChange(word="COUGH", replacement="fall", characteristic="age", group="80"))
    assert changed.text.startswith("80 year old man with fall and sepsis")
    assert [key for key, _ in changed.told] == ["replaced", "changed"]


def test_a_template_is_filled_and_answered(served: Served, project: Path) -> None:
    member = served.member("Ann", "viewer")
    form = {"suite": "ade", "template": "[He|She] has {finding}.", "own": "finding: fever, sepsis"}
    page = member.send("/whatif/templates", **form).text
    texts = ["He has fever.", "He has sepsis.", "She has fever.", "She has sepsis."]
    assert fill_template(form["template"], "ade", form["own"]) == (texts, 4)
    assert "<h2>4 texts</h2>" in page
    model = palpate.load_model(f"palpate:{project}/models/lr")
    for text, p in zip(texts, model.predict(texts).ravel(), strict=True):
        assert f'<th scope="row">{text}</th>' in page
        assert f"{p:.3f}" in page
    for wrong in ({"template": "{nothing}"}, {"template": ""}, {"own": "no colon"}, {"suite": "../x"}):
        assert member.send("/whatif/templates", **{**form, **wrong}).status_code == 400
    assert len(fill_template("I took {drug} and {effect}.", "ade", "").texts) == 60
    own = "\n".join(f"{slot}: {', '.join(f'{slot}{k}' for k in range(n))}" for slot, n in (("a", 16), ("b", 10)))
    many = member.send("/whatif/templates", suite="ade", template="{a} and {b}.", own=own).text
    assert "<h2>60 of 160 texts, drawn at random</h2>" in many
    assert many.count('<th scope="row">') == 60
    with pytest.raises(InputError):
        fill_template("{a}", "ade", "")


SMOKING = """\
name: smoking
insert: [section]
sections: [Social History]
groups:
  none: {}
  smoker:
    sentence: [Is a current smoker]
    phrase: [is a current smoker]
"""
PREGNANT = "30 year old woman, 20 weeks pregnant, with cough.\nSocial History: Lives alone."


def test_notes_are_altered_as_the_audit_of_the_configuration_does(tmp_path: Path, project: Path) -> None:
    (tmp_path / "smoking.yaml").write_text(SMOKING)
    told = {}
    for contradictory in ("skip", "alter"):
        options = f"{{definitions: [smoking.yaml], contradictory: {contradictory}, sure: normal}}"
        (tmp_path / "audit.yaml").write_text(
            f"cohort: {{file: {project}/notes.csv, labels: [ill]}}\n"
            f"models: {{lr: 'palpate:{project}/models/lr'}}\naudits: {{characteristics: {options}}}\n"
        )
        with Served(project / "run", folder=tmp_path / contradictory, config=tmp_path / "audit.yaml") as served:
            ann = served.member("Ann", "viewer")
            page = ann.get("/whatif").text
            assert '<option value="smoking=smoker">' in page
            assert '<option value="gender=female">' in page
            answer = ann.send("/whatif", note=PREGNANT, to="smoking=smoker").text
            assert "Is a current smoker" in answer
            told[contradictory] = ann.send("/whatif", note=PREGNANT, to="gender=male").text
            assert ann.send("/whatif", note=PREGNANT, to="nothing=x").status_code == 400
    assert "<ins>man" not in told["skip"]
    assert "<ins>man" in told["alter"]


def test_the_audit_says_which_doubtful_notes_are_altered() -> None:
    doubtful = "45 year old man. She was admitted with cough."
    wanted = WantedChange(characteristic="gender", group="female")
    found = {sure: change_note(doubtful, wanted, AlteringOptions(sure=sure)) for sure in ("strict", "normal")}
    assert found["strict"].edits == ()
    assert found["normal"].edits


@pytest.mark.slow
def test_a_network_shows_its_gradients_and_a_file_of_scores_says_that_it_has_none(
    tmp_path: Path, project: Path
) -> None:
    from tests.models.tiny_checkpoints import checkpoint

    folder = tmp_path / "network"
    checkpoint(folder)
    (tmp_path / "scores.csv").write_text("case_id,ill\nc0,0.5\n")
    (tmp_path / "audit.yaml").write_text(
        f"cohort: {{file: {project}/notes.csv, labels: [ill]}}\n"
        f"models: {{net: 'hf:{folder}', old: 'predictions:scores.csv'}}\naudits: {{performance: {{}}}}\n"
    )
    with Served(project / "run", folder=tmp_path / "bench", config=tmp_path / "audit.yaml") as served:
        page = ask(served.member("Ann", "viewer"), word="fever", replacement="chills", highlights="1")
        model = palpate.load_model(f"hf:{folder}")
        wanted = model.predict([NOTE, NOTE.replace("Fever", "Chills")])
        assert numbers(page)[:2] == pytest.approx(wanted[:, 0].tolist(), abs=1e-6)
        assert "By its own explanation" in page
        assert "old is not asked: it looks cases up" in page
