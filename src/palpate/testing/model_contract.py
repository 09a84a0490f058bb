"""What every model must do: probabilities, rows that do not depend on each other, an honest window and fingerprint.

    def test_mine():
        spec = ModelSpec("mine", "mine:100")
        check_model_contract(load_model(spec))
        check_spec_contract(spec)

The built-in adapters are held to the same checks.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from palpate.cases.edits import Edit, Inputs, splice
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec, Probabilities, load_model
from palpate.results import Asked, Attributions

TEXTS = (
    "Patient is a 54 year old man with chest pain, admitted for pneumonia.",
    "No fever. No pain. Discharged home in good condition.",
    "History of diabetes mellitus; started on insulin.\nFollow up in two weeks.",
    "Pt denies chest pain but reports shortness of breath (SOB) at rest.",
    "Fever",
)
ODD_TEXTS = (
    "",
    " \n\t ",
    "Müller naïve cafe\u0301 İstanbul ΟΔΟΣ ß ﬁ ½ 37,5\u00a0°C",
    "😀 👩🏽‍⚕️ 痛み боль \u202eright-to-left\u202c \u0000 end",
    "fever and pain " * 6_667,
)
EDITS: tuple[tuple[int, tuple[Edit, ...]], ...] = (
    (0, ()),
    (0, (Edit(23, 26, "woman"),)),
    (0, (Edit(13, 15, "84"), Edit(23, 26, "woman"))),
    (0, (Edit(0, 0, "Elderly "),)),
    (1, (Edit(0, 9, ""),)),
    (1, (Edit(2, 3, ""), Edit(3, 3, "-"))),
    (2, (Edit(11, 28, "asthma"), Edit(30, 37, ""))),
    (3, (Edit(66, 67, ""),)),
    (4, (Edit(5, 5, " and 😀 café"),)),
)
"""Edits of `TEXTS`: whole words, within words, at both ends, adjacent, words joined."""
MOST_ROUNDING = 0.03
"""What a model in 16 bit may state as its `rounding`."""


def edited_inputs() -> Inputs:
    """`EDITS` as a model gets them."""
    edits = [edit for _, each in EDITS for edit in each]
    return Inputs(
        parent=np.array([parent for parent, _ in EDITS]),
        first_edit=np.cumsum([0, *(len(each) for _, each in EDITS)]),
        start=np.array([edit.start for edit in edits]),
        end=np.array([edit.end for edit in edits]),
        replacement=np.arange(len(edits)),
        replacements=[edit.text for edit in edits],
        parents=TEXTS,
        case_ids=[str(parent) for parent, _ in EDITS],
        cohorts=[""] * len(EDITS),
    )


def asked_texts() -> list[str]:
    """Every text that the contract may ask of a model that reads all of a text."""
    return list(dict.fromkeys([*TEXTS, *ODD_TEXTS, *(splice(TEXTS[parent], each) for parent, each in EDITS)]))


def expect(holds: bool | np.bool_, promise: str) -> None:
    """Raise `BrokenContract` unless a promise is kept."""
    if not holds:
        raise BrokenContract(promise)


class BrokenContract(AssertionError):
    """A plug-in does not do what palpate relies on; the message is the promise that it breaks."""


def check_probabilities(model: Model) -> None:
    """One finite probability per text and label."""
    p = model.predict(Inputs.from_texts(TEXTS))
    _expect_probabilities(p, (len(TEXTS), len(model.labels)))


def _expect_probabilities(p: np.ndarray[tuple[int, ...], np.dtype[np.float64]], shape: tuple[int, int]) -> None:
    expect(p.shape == shape, f"predict gives one row per input and one column per label, not {p.shape}")
    expect(p.dtype == np.float64, "predictions are float64")
    expect(bool(np.all(np.isfinite(p) & (p >= 0) & (p <= 1))), "predictions are probabilities")


def check_labels(model: Model) -> None:
    """Labels are a tuple of distinct names."""
    expect(isinstance(model.labels, tuple) and len(model.labels) > 0, "`labels` is a tuple of at least one name")
    expect(all(isinstance(label, str) and label for label in model.labels), "labels are texts")
    expect(len(set(model.labels)) == len(model.labels), "labels are distinct")


def check_no_rows(model: Model) -> None:
    """Nothing asked, nothing answered."""
    _expect_probabilities(model.predict(Inputs.from_texts([])), (0, len(model.labels)))


def check_rows_are_independent(model: Model) -> None:
    """A prediction does not depend on what else is in the batch."""
    together = model.predict(Inputs.from_texts(TEXTS))
    alone = np.concatenate([model.predict(Inputs.from_texts([text])) for text in TEXTS])
    order = [3, 1, 4, 0, 2, 1]
    shuffled = model.predict(Inputs.from_texts([TEXTS[k] for k in order]))
    expect(_alike(model, alone, together), "a text alone has the prediction that it has in a batch")
    expect(_alike(model, shuffled, together[order]), "the order of the texts makes no difference")


def _alike(model: Model, p: Probabilities, other: Probabilities) -> bool:
    """Whether predictions differ by no more than the rounding that the model states."""
    return bool(np.allclose(p, other, rtol=0, atol=_rounding(model)))


def _rounding(model: Model) -> float:
    expect(0 <= model.rounding <= MOST_ROUNDING, f"`rounding` is at most {MOST_ROUNDING}, or no shift could be seen")
    return model.rounding


def check_edits_are_splices(model: Model) -> None:
    """An edited text is predicted as the text that it stands for."""
    inputs = edited_inputs()
    edited = model.predict(inputs)
    plain = model.predict(Inputs.from_texts(inputs.texts))
    same = np.allclose(edited, plain, rtol=0, atol=1e-12) if model.uses_edits else np.array_equal(edited, plain)
    expect(same, "an edit is predicted as the spliced text")


def check_odd_texts(model: Model) -> None:
    """Empty, blank, very long and unusual texts have probabilities too."""
    _expect_probabilities(model.predict(Inputs.from_texts(ODD_TEXTS)), (len(ODD_TEXTS), len(model.labels)))


def check_visible_ends(model: Model) -> None:
    """What lies behind the end that the model declares does not change its prediction."""
    texts = [*TEXTS, *ODD_TEXTS]
    ends = model.visible_ends(texts)
    expect(ends.shape == (len(texts),), "visible_ends gives one number per text")
    expect(np.issubdtype(ends.dtype, np.integer), "visible_ends gives whole numbers")
    expect(model.visible_ends([]).shape == (0,), "visible_ends takes an empty list")
    cut = [(text, int(end)) for text, end in zip(texts, ends, strict=True) if end <= len(text)]
    if not cut:
        whole = all(end == len(text) + 1 for text, end in zip(texts, ends, strict=True))
        expect(model.window is None or whole, "a model that reads all of a text says so")
        return
    before = model.predict(Inputs.from_texts([text for text, _ in cut]))
    for change in ("", " zebra", "fever fever fever. " * 3):
        changed = [text[:end] + change + text[end + 4 :] for text, end in cut]
        after = model.predict(Inputs.from_texts(changed))
        expect(_alike(model, after, before), "an edit behind visible_ends changes nothing")


def check_explains(model: Model) -> None:
    """Pieces inside the text that is read, without overlap, the same whatever else is asked; none if none is asked."""
    texts = [*TEXTS, *ODD_TEXTS[:-1], ODD_TEXTS[-1][:2000]]
    inputs, last = Inputs.from_texts(texts), len(model.labels) - 1
    ends = np.minimum(model.visible_ends(texts), [len(text) for text in texts])
    row = np.array([2, *range(len(texts)), 2])
    asked = Asked(row, np.where(np.arange(len(row)) % 2 == 0, 0, last))
    for way in model.explains:
        found = model.explain(inputs, asked, way)
        expect(len({len(column) for column in found}) == 1, "the columns of explanations have one length")
        whole = all(np.issubdtype(column.dtype, np.integer) for column in found[:4])
        expect(whole and found.score.dtype == np.float64, "places are whole numbers, scores are float64")
        expect(bool(np.all(np.isfinite(found.score))), "scores of explanations are finite")
        pairs = set(zip(found.row.tolist(), found.label.tolist(), strict=True))
        expect(
            pairs <= set(zip(*(column.tolist() for column in asked), strict=True)), "only what is asked is explained"
        )
        inside = (found.start >= 0) & (found.start < found.end) & (found.end <= ends[found.row])
        expect(bool(np.all(inside)), "pieces lie in the text that is read")
        expect({0, 1, 2, 3, 4} <= set(found.row.tolist()), "a text with words has pieces")
        for k in (0, 5, 8):
            _check_pieces_of_one_pair(model, inputs, Asked(row[[k]], asked.label[[k]]), found, way)
        none = np.zeros(0, dtype=np.int64)
        nothing = [len(column) for column in model.explain(inputs, Asked(none, none), way)]
        expect(nothing == [0] * 5, "where nothing is asked, nothing is explained")


def _check_pieces_of_one_pair(model: Model, inputs: Inputs, pair: Asked, found: Attributions, way: str) -> None:
    alone = model.explain(inputs, pair, way)
    expect(bool(np.all(alone.start[1:] >= alone.end[:-1])), "pieces do not overlap")
    same = np.flatnonzero((found.row == pair.row[0]) & (found.label == pair.label[0]))[: len(alone.row)]
    places = np.array_equal(found.start[same], alone.start) and np.array_equal(found.end[same], alone.end)
    largest = float(np.abs(alone.score).max(initial=0))
    scores = places and np.allclose(found.score[same], alone.score, rtol=0, atol=max(1e-5, _rounding(model) * largest))
    expect(scores, "an explanation does not depend on what else is asked")


MODEL_CHECKS: tuple[Callable[[Model], None], ...] = (
    check_probabilities,
    check_labels,
    check_no_rows,
    check_rows_are_independent,
    check_edits_are_splices,
    check_odd_texts,
    check_visible_ends,
    check_explains,
)
"""What `check_model_contract` checks, one by one."""


def check_model_contract(model: Model) -> None:
    """All checks of a loaded model; the first promise that it breaks is raised as `BrokenContract`."""
    for check in MODEL_CHECKS:
        check(model)


# --- a model as it is named in audit.yaml --------------------------------------------------------------------


def check_fingerprint_is_stable(spec: ModelSpec) -> None:
    """Loaded twice, a model has one fingerprint."""
    first, second = load_model(spec), load_model(spec)
    try:
        expect(isinstance(first.fingerprint, str) and bool(first.fingerprint), "a model has a fingerprint")
        expect(first.fingerprint == second.fingerprint, "loaded twice, a model has one fingerprint")
    finally:
        first.close()
        second.close()


def check_unknown_option(spec: ModelSpec) -> None:
    """A mistyped option is refused by name."""
    wrong = ModelSpec(spec.name, spec.source, spec.folder, {**spec.options, "no_such_option": 1})
    _expect_refused(wrong, "no_such_option", "an unknown option is refused by its name")


def check_missing_file(spec: ModelSpec) -> None:
    """A missing file is refused by name."""
    scheme, _, target = spec.source.partition(":")
    missing = f"{scheme}:no-such-model{Path(target).suffix}"
    wrong = ModelSpec(spec.name, missing, spec.folder, spec.options)
    _expect_refused(wrong, "no-such-model", "a missing file is refused by its name")


def _expect_refused(spec: ModelSpec, word: str, promise: str) -> None:
    try:
        load_model(spec).close()
    except ConfigError as error:
        expect(word in str(error), promise)
    else:
        raise BrokenContract(promise)


_IN_A_FRESH_PROCESS = """
import pickle, sys
import numpy as np
from palpate.cases.edits import Inputs
from palpate.models import load_model
with open(sys.argv[1], "rb") as file:
    spec, texts = pickle.load(file)
model = load_model(spec)
np.savez(sys.argv[2], p=model.predict(Inputs.from_texts(texts)), fingerprint=model.fingerprint, labels=model.labels)
model.close()
"""


def check_loads_in_a_fresh_process(spec: ModelSpec, model: Model) -> None:
    """Another process, such as a worker, loads the same model from the spec alone."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "spec.pkl").write_bytes(pickle.dumps((spec, list(TEXTS))))
        command = [sys.executable, "-c", _IN_A_FRESH_PROCESS, str(folder / "spec.pkl"), str(folder / "answer.npz")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        expect(done.returncode == 0, f"a fresh process loads the model: {done.stderr[-2000:]}")
        answer = np.load(folder / "answer.npz")
        expect(str(answer["fingerprint"]) == model.fingerprint, "a fresh process finds the same fingerprint")
        expect(tuple(answer["labels"]) == model.labels, "a fresh process finds the same labels")
        same = _alike(model, answer["p"], model.predict(Inputs.from_texts(TEXTS)))
        expect(same, "a fresh process makes the same predictions")


def check_spec_contract(spec: ModelSpec, *, is_file: bool = True) -> None:
    """All checks of a model that is named by a scheme; `is_file`: its target is a file or folder."""
    check_fingerprint_is_stable(spec)
    check_unknown_option(spec)
    if is_file:
        check_missing_file(spec)
    expect(pickle.loads(pickle.dumps(spec)) == spec, "a spec can be sent to a worker")
    model = load_model(spec)
    try:
        check_loads_in_a_fresh_process(spec, model)
    finally:
        model.close()
