"""A transformer that reads notes: fine-tuned from a local checkpoint, or a small encoder from scratch.

As in the vocabulary paper (Section 2.2, Appendix B.1): weighted cross-entropy, a search over learning rates, each for
some epochs, and over all epochs of all learning rates the weights with the lowest validation loss. The loss of a batch
is the plain mean of its weighted terms: normalised by the weights of the batch itself, the many batches without a
positive would undo the weighting. Nothing is downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palpate.cases.edits import Inputs
from palpate.models.devices import check_device
from palpate.models.networks import require_torch, torch_threads
from palpate.models.options import digest
from palpate.models.text.checkpoints import check_checkpoint, quiet
from palpate.train.notes import Split
from palpate.train.options import EncoderOptions, FitTask, Fitted, Kind, TrainStep
from palpate.train.transformer.options import TransformerOptions


def _check(options: TransformerOptions, _labels: Sequence[str]) -> Mapping[str, Any]:
    """The libraries and the checkpoint are there; the result depends on the checkpoint's bytes."""
    return check_encoder(options, "training a transformer")


def check_encoder(options: EncoderOptions, what: str) -> dict[str, Any]:
    """The same for every kind that starts from a checkpoint."""
    path = options.checkpoint
    if path is not None:
        check_checkpoint(path, trust=options.trust)
    require_torch(what, "transformers")
    check_device(options)
    files = [] if path is None else [file for file in path.iterdir() if file.is_file()]
    return {"checkpoint": digest("checkpoint", {}, files)} if files else {}


def _fit(split: Split, options: TransformerOptions, task: FitTask) -> Fitted:
    from palpate.train.transformer.network import SCRATCH_TOKENS, make_network, make_tokenizer, tokenise_notes
    from palpate.train.transformer.training import TransformerTraining

    seed = task.seed or 0
    task.progress(TrainStep("tokens", 0, 1))
    with torch_threads(options.threads):
        most = options.max_tokens or SCRATCH_TOKENS
        tokenizer = make_tokenizer(split.train, options, task.scratch, max_tokens=most)
        network, windows = make_network(tokenizer, split.labels, options, seed)
        training = TransformerTraining(
            network,
            tokenise_notes(windows, split.train, split.train.y, options),
            tokenise_notes(windows, split.validation, split.train.y, options),
            options,
            seed=seed,
            home=task.scratch,
            progress=task.progress,
        )
        best, history = training.run()
        checkpoint = _write_checkpoint(task.scratch / "checkpoint", network, tokenizer)
        task.progress(TrainStep("validation", 0, 1))
        p = _score(checkpoint, split, options.device)
    facts = {
        "learning_rate": best["learning_rate"],
        "epochs": best["epoch"],
        "validation_loss": round(best["validation_loss"], 6),
        "max_tokens": windows.max_tokens,
        "n_weights": sum(int(weight.numel()) for weight in network.parameters()),
        "tried": history,
    }

    def save(folder: Path, **manifest: Any) -> Path:
        from palpate.models.adapters.palpate import save_hf

        return save_hf(folder, lambda home: _copy(checkpoint, home), **manifest)

    return Fitted(p, save, facts)


def _write_checkpoint(folder: Path, network: Any, tokenizer: Any) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    with quiet():
        network.to("cpu").eval().save_pretrained(folder, safe_serialization=True)
        tokenizer.save_pretrained(folder)
    return folder


def _score(checkpoint: Path, split: Split, device: str) -> Any:
    """Validation probabilities from the files as an audit will read them, so that the threshold fits them."""
    from palpate.models.adapters import hf

    model = hf.load(checkpoint.name, {"labels": split.labels, "device": device}, folder=checkpoint.parent)
    return model.predict(Inputs.from_texts(split.validation.texts))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


KIND = Kind(
    what="A transformer encoder with a classification head, which reads the beginning of a note.",
    options=TransformerOptions,
    fit=_fit,
    check=_check,
    packages=("torch", "transformers", "tokenizers"),
    limits=("Text after the last token that it reads has no influence on its prediction.",),
)
