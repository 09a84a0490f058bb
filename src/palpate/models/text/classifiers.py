"""Sequence classifiers of the transformers library: their weights, and what their outputs stand for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from palpate.errors import ConfigError
from palpate.models.classes import ClassOptions, positive_of, unclear
from palpate.models.devices import Device
from palpate.models.networks import Activation, n_labels_of
from palpate.models.text.checkpoints import lacks_weights, load_network
from palpate.models.text.plm_icd import is_plm_icd, load_plm_icd, plm_icd_network

_MULTI_LABEL = re.compile("multi_?label", re.IGNORECASE)


class OutputLabels(NamedTuple):
    """The labels; of two classes also which one they are: the first, the second, or both where that is not known."""

    names: tuple[str, ...]
    kept: Literal[0, 1, "both"] = 1


def load_classifier(config: Any, path: Path, *, trust: bool, device: Device) -> Any:
    """The classifier with all its weights; a head that the file does not contain is never made up."""
    if is_plm_icd(config):
        return device.place(load_plm_icd(config, path, trust=trust))
    kind = _kind(config, path, trust=trust)
    network, missing = load_network(kind, path, trust=trust, device=device, config=config)
    if missing:
        hint = "it would predict at random; give the fine-tuned checkpoint"
        raise lacks_weights(missing, "a sequence classifier", path, hint=hint)
    return network


def classifier_without_weights(config: Any, path: Path, *, trust: bool) -> Any:
    """The network of a classifier, with weights of any value."""
    if is_plm_icd(config):
        return plm_icd_network(config)
    return _kind(config, path, trust=trust).from_config(config, trust_remote_code=trust)


def _kind(config: Any, path: Path, *, trust: bool) -> Any:
    """Which of the library's `AutoModel...` classes loads the checkpoint; its own code may be none for classifiers."""
    import transformers

    own = [name for name in getattr(config, "auto_map", None) or {} if name.startswith("AutoModel")] if trust else []
    usual = "AutoModelForSequenceClassification"
    if own:
        return getattr(transformers, usual if usual in own else own[0])
    architectures = config.architectures or []
    if architectures and not any("SequenceClassification" in name for name in architectures):
        raise ConfigError(
            f"this is a checkpoint of {', '.join(architectures)}, not of a sequence classifier", file=path
        )
    return getattr(transformers, usual)


def activation_of(config: Any, path: Path, *, given: str | None = None, attends: bool = False) -> Activation:
    """Classes or labels: as the configuration says, else as was given, else by what the network is.

    A network whose class is called multi-label, or whose outputs attend to tokens each by itself, has labels.
    """
    n_outputs, task = int(config.num_labels), config.problem_type or given
    if task is None and (attends or any(_MULTI_LABEL.search(name) for name in config.architectures or [])):
        task = "multi_label_classification"
    if task == "regression":
        raise ConfigError("problem_type is regression: the outputs are not probabilities", file=path)
    if task == "multi_label_classification" or (task is None and n_outputs == 1):
        return "sigmoid"
    if n_outputs == 1:
        raise ConfigError("problem_type is single_label_classification, but there is only one class", file=path)
    return "softmax"


def output_labels(config: Any, activation: Activation, own: ClassOptions, path: Path) -> OutputLabels:
    """The labels that the outputs stand for."""
    n_outputs = int(config.num_labels)
    names = tuple(str(config.id2label[i]) for i in range(n_outputs))
    n_labels = n_labels_of(n_outputs, activation)
    if own.labels is not None and len(own.labels) != n_labels:
        raise ConfigError(f"`labels` names {len(own.labels)} labels, but the model gives {n_labels}", file=path)
    if n_labels == n_outputs:
        return OutputLabels(own.labels or names)
    kept = positive_of(names, own, file=path)
    if kept is None and own.labels is not None:
        raise unclear(names, file=path)
    if kept is None:
        return OutputLabels(names, "both")
    return OutputLabels(own.labels or (names[kept],), 0 if kept == 0 else 1)
