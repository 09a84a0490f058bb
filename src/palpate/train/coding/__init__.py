"""`palpate train caml` and `effective-can`: thousands of labels, label-wise attention over words, evidence per label.

caml           one convolution and label-wise attention (Mullenbach et al., 2018; evidence paper, Table 9)
effective-can  residual squeeze-and-excitation blocks under label-wise attention (Liu et al., 2021), the base of the
               evidence paper's models (Section 5.1, Figures 1 and 2)

As in the evidence paper, Sections 5 and 6, the same network can be trained without and with evidence, which shows what
the evidence costs in coding performance. Notes without evidence train the codes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.errors import CohortError
from palpate.models.devices import Device, check_device, device_named
from palpate.models.networks import require_torch, torch_threads
from palpate.models.networks.coding.words import N_SPECIAL, WordWindow, learn_words
from palpate.models.options import digest
from palpate.train.coding.evidence import find_evidence, read_table
from palpate.train.coding.options import CamlOptions, CodeOptions, CodingOptions, EffectiveCanOptions
from palpate.train.coding.vectors import read_vectors
from palpate.train.notes import Split, split_notes
from palpate.train.options import FitTask, Fitted, Kind, TrainingData, TrainStep

LIMITS = (
    "Text after the last word that it reads has no influence on its prediction.",
    "A label without a training note is never predicted; its probability is near 0, whatever the note says.",
)


def check(options: CodeOptions, _labels: Sequence[str]) -> dict[str, Any]:
    """torch and the evidence table are there; the result depends on the table's bytes."""
    require_torch("training a coding model")
    check_device(options)
    if options.evidence_table is not None:
        read_table(options.evidence_table)
    files = {"evidence": options.evidence_table, "vectors": getattr(options, "vectors", None)}
    return {name: digest(name, {}, [file]) for name, file in files.items() if file is not None}


def read_codes(cohort: Cohort, _options: CodeOptions) -> TrainingData:
    """All notes; some labels may have no training note."""
    return TrainingData(cohort, split_notes(cohort, rare_labels=True))


class CodingParts(NamedTuple):
    """What is trained: how notes are read, and a network with initial weights."""

    window: Any
    network: Any
    facts: dict[str, Any]


def fit(split: Split, options: CodingOptions, task: FitTask) -> Fitted:
    """A network of words."""
    from palpate.train.coding.training import CodingTraining

    def parts() -> CodingParts:
        window = make_window(split, options)
        network, known = make_network(split, window, options, task.seed or 0)
        return CodingParts(window, network, {**known, "n_words": len(window.words)})

    return fit_codes(split, options, task, parts, CodingTraining)


def fit_codes(
    split: Split, options: CodeOptions, task: FitTask, parts: Callable[[], CodingParts], training: Any
) -> Fitted:
    """One network at its best epoch, and its validation probabilities as an audit will get them."""
    from palpate.models.networks.coding.model import CodingModel, write_coding
    from palpate.train.coding.batches import prepare

    task.progress(TrainStep("words", 0, 1))
    with torch_threads(options.threads):
        window, network, known = parts()
        read = [window.read(notes.texts) for notes in (split.train, split.validation)]
        marked, facts = _evidence(split, read[0], options)
        weights = {"y_train": split.train.y, "class_weight": options.class_weight, "padding": window.padding}
        best, history = training(
            network,
            prepare(read[0], split.train, evidence=marked, **weights),
            prepare(read[1], split.validation, **weights),
            options,
            seed=task.seed or 0,
            home=task.scratch,
            progress=task.progress,
        ).run()
        task.progress(TrainStep("validation", 0, 1))
        device = Device(device_named(options.device))
        model = CodingModel(network, window, labels=split.labels, fingerprint="", device=device)
        p = model.predict(Inputs.from_texts(split.validation.texts))

    def save(folder: Path, **manifest: Any) -> Path:
        from palpate.models.adapters.palpate import save_network

        return save_network(folder, "coding", lambda home: write_coding(home, network, window), **manifest)

    measure = options.measure(len(split.labels))
    chosen = {"epochs": best["epoch"], "stopped_on": measure, measure: best[measure], **known}
    return Fitted(p, save, {**chosen, **_facts(network, split), "tried": history, **facts})


def make_window(split: Split, options: CodingOptions) -> WordWindow:
    """The vocabulary of the training notes."""
    notes = split.train
    words = learn_words(notes.texts, notes.patients, min_patients=options.min_patients, max_words=options.max_words)
    if not words:
        raise CohortError(
            "no word of the training notes is left for the vocabulary",
            hint=f"lower `min_patients` ({options.min_patients})",
        )
    return WordWindow(words, options.max_tokens)


def make_network(split: Split, window: WordWindow, options: CodingOptions, seed: int) -> tuple[Any, dict[str, int]]:
    """The network with initial weights, and how many words have vectors from a file.

    Each label starts at its share of the training notes.
    """
    import torch

    from palpate.models.networks.coding.layers import CodingNetwork

    vectors = read_vectors(options.vectors, window.words) if options.vectors else None
    size = {} if vectors is None else {"embedding": vectors.size}
    shape = options.shape(len(split.train.texts)).model_copy(update=size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = CodingNetwork(shape, window.n_ids, len(split.labels))
    with torch.no_grad():
        network.bias.copy_(torch.from_numpy(first_bias(split.train.y, options.class_weight)))
        if vectors is not None:
            network.embedding.weight[vectors.rows + N_SPECIAL] = torch.from_numpy(vectors.values)
    return network, {} if vectors is None else {"words_with_vectors": len(vectors.rows)}


def first_bias(y: NDArray[np.uint8], class_weight: str) -> NDArray[np.float32]:
    """The log-odds of each label's share of the training notes; 0 where classes weigh the same."""
    if class_weight == "balanced":
        return np.zeros(y.shape[1], dtype=np.float32)
    n, n_positive = len(y), y.sum(axis=0, dtype=np.float64)
    return np.asarray(np.log((n_positive + 0.5) / (n - n_positive + 0.5)), dtype=np.float32)


def _evidence(split: Split, read: Any, options: CodeOptions) -> tuple[Any, dict[str, Any]]:
    file = options.evidence_table
    if file is None:
        return (), {}
    evidence = find_evidence(read_table(file), split.train, split.labels, read, file=file)
    return evidence.notes, evidence.facts()


def _facts(network: Any, split: Split) -> dict[str, Any]:
    n_positive = split.train.y.sum(axis=0)
    return {
        "n_labels": len(split.labels),
        "n_labels_without_a_training_note": int((n_positive == 0).sum()),
        "shape": network.shape.model_dump(mode="json"),
        "n_weights": sum(int(weight.numel()) for weight in network.parameters()),
    }


def _kind(what: str, options: type[CodingOptions]) -> Kind:
    packages = ("torch", "safetensors")
    return Kind(what, options, fit, packages, check=check, limits=LIMITS, read=read_codes)


CAML = _kind("CAML: one convolution over the words of a note, and for each label an attention over them.", CamlOptions)
EFFECTIVE_CAN = _kind(
    "EffectiveCAN: residual convolutions with gates over the words of a note, and for each label an attention "
    "over the outputs of all of them.",
    EffectiveCanOptions,
)
