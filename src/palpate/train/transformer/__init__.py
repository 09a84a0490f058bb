"""A transformer that reads notes: fine-tuned from a local checkpoint, or a small encoder from scratch.

As in the vocabulary paper (Section 2.2, Appendix B.1): weighted cross-entropy, a search over learning rates, each for
some epochs, and of all epochs of all learning rates the weights with the lowest validation loss. The loss of a batch
is the plain mean of its weighted terms: normalised by the weights of the batch itself, the many batches without a
positive would undo the weighting. Nothing is downloaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, MissingExtra
from palpate.models.digest import digest
from palpate.models.networks.device import device_of
from palpate.train.notes import Split
from palpate.train.options import Fitted, Kind, Listed, SeededOptions, Step, Task

PAPER_RATES = (2e-5, 2e-6, 2e-7, 2e-8, 2e-9)
SCRATCH_RATES = (1e-3, 3e-4, 1e-4)
_WEIGHTS = ("*.safetensors", "*.bin")


class TransformerOptions(SeededOptions):
    """Options of `transformer`."""

    checkpoint: Path | None = None
    """A folder with a transformers checkpoint to fine-tune; None: a small encoder from scratch."""
    trust: bool = False
    """Allow a checkpoint with pickled weights (*.bin) or with code of its own."""
    max_tokens: int | None = Field(default=None, ge=8)
    """How many tokens of a note are read; default: all that the checkpoint can, 512 from scratch."""
    vocab_size: int = Field(default=8000, ge=300)
    """From scratch: word pieces, learned on the training notes."""
    min_patients: int = Field(default=5, ge=1)
    """From scratch: word pieces are learned from words that the notes of so many patients have."""
    layers: int = Field(default=2, ge=1)
    """From scratch: layers of the encoder."""
    hidden: int = Field(default=128, ge=2)
    """From scratch: width of the encoder."""
    heads: int = Field(default=2, ge=1)
    """From scratch: attention heads; must divide `hidden`."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """From scratch: dropout."""
    learning_rates: Listed[float] | None = Field(default=None, min_length=1)
    """To try, each for all epochs; default: the paper's 2e-5 to 2e-9, and 1e-3, 3e-4, 1e-4 from scratch."""
    epochs: int = Field(default=10, ge=1)
    """The most epochs of a learning rate."""
    patience: int | None = Field(default=None, ge=1)
    """Give a learning rate up after so many epochs without a lower validation loss; None: never, as in the paper."""
    batch_size: int = Field(default=16, ge=1)
    """Notes in a step."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps in which the learning rate rises; then it falls, both linearly."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Of AdamW; not for biases and norms."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Longer gradients are cut to this length."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: mixed precision, for processors that have it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto: a GPU if there is one."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch while it trains; default: torch's own choice."""
    save_steps: int = Field(default=500, ge=1)
    """Save the state of the training after so many steps, besides after every epoch."""
    keep_training_files: bool = False
    """Keep OUT/.training when all is done."""

    @model_validator(mode="after")
    def _heads_divide(self) -> TransformerOptions:
        if self.hidden % self.heads:
            raise ValueError(f"`heads` ({self.heads}) must divide `hidden` ({self.hidden})")
        return self

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates to try, each once."""
        default = SCRATCH_RATES if self.checkpoint is None else PAPER_RATES
        return tuple(dict.fromkeys(self.learning_rates or default))


def _check(options: TransformerOptions, _labels: Sequence[str]) -> Mapping[str, Any]:
    """The libraries and the checkpoint are there; the result depends on the checkpoint's bytes."""
    path = options.checkpoint
    files: list[Path] = []
    if path is not None:
        if not path.is_dir():
            hint = "nothing is downloaded: give the folder of a checkpoint on this machine, or none"
            raise ConfigError("there is no such checkpoint folder", file=path, hint=hint)
        if not (path / "config.json").is_file():
            raise ConfigError("this folder has no config.json, so it is no transformers checkpoint", file=path)
        allowed = _WEIGHTS if options.trust else _WEIGHTS[:1]
        if not any(file for pattern in allowed for file in path.glob(pattern)):
            hint = "save it as safetensors, or set trust=true for pickled weights of your own"
            raise ConfigError("this checkpoint has no weights as *.safetensors", file=path, hint=hint)
        files = [file for file in path.iterdir() if file.is_file()]
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", needed_for="training a transformer") from None
    device_of(options.device)
    return {"checkpoint": digest("checkpoint", {}, files)} if files else {}


def _fit(split: Split, options: TransformerOptions, task: Task) -> Fitted:
    from palpate.train.transformer.network import make_network, make_tokenizer, read_notes
    from palpate.train.transformer.search import Search

    seed = task.seed or 0
    task.progress(Step("tokens", 0, 1))
    with torch_threads(options.threads):
        tokenizer = make_tokenizer(split.train, options, task.scratch)
        network, windows = make_network(tokenizer, split.labels, options, seed)
        search = Search(
            network,
            read_notes(windows, split.train, split.train.y, options),
            read_notes(windows, split.validation, split.train.y, options),
            options,
            seed=seed,
            home=task.scratch,
            progress=task.progress,
        )
        found = search.run()
        checkpoint = _write_checkpoint(task.scratch / "checkpoint", network, tokenizer)
        task.progress(Step("validation", 0, 1))
        p = _score(checkpoint, split)
    facts = {
        "learning_rate": found.best["learning_rate"],
        "epochs": found.best["epoch"],
        "validation_loss": round(found.best["validation_loss"], 6),
        "max_tokens": windows.max_tokens,
        "n_weights": sum(int(weight.numel()) for weight in network.parameters()),
        "tried": found.history,
    }

    def save(folder: Path, **manifest: Any) -> Path:
        from palpate.models.adapters.palpate import save_hf

        return save_hf(folder, lambda home: _copy(checkpoint, home), **manifest)

    return Fitted(p, save, facts)


def _write_checkpoint(folder: Path, network: Any, tokenizer: Any) -> Path:
    import transformers

    from palpate.models.adapters.hf import quiet

    shutil.rmtree(folder, ignore_errors=True)
    with quiet(transformers):
        network.to("cpu").eval().save_pretrained(folder, safe_serialization=True)
        tokenizer.save_pretrained(folder)
    return folder


def _score(checkpoint: Path, split: Split) -> Any:
    """Validation probabilities of the files as an audit will read them, so that the threshold fits those."""
    from palpate.models.adapters import hf

    model = hf.load(checkpoint.name, {"labels": split.labels}, folder=checkpoint.parent)
    return model.predict(Inputs.from_texts(split.validation.texts))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


@contextmanager
def torch_threads(n: int | None) -> Iterator[None]:
    """So many threads of torch for a while."""
    import torch

    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


KIND = Kind(
    what="A transformer encoder with a classification head, which reads the beginning of a note.",
    options=TransformerOptions,
    fit=_fit,
    check=_check,
    packages=("torch", "transformers", "tokenizers"),
    limits=("What stands behind the last token that it reads has no influence on its answer.",),
)
