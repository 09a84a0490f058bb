"""What a checkpoint reads of a long note: what was asked for, what its configuration says, and whether that is true.

A checkpoint that cuts notes into chunks by itself says so (`chunk_size`), or its user does (`chunk: 128`), or it turns
out that it takes more tokens than its encoder has positions. Either way it is tried out on two made-up notes: which
form of input it takes, and whether the last chunk of the longest note that it is said to read changes its answer. If
not, it is refused: a report on what a model never saw must not rest on a wrong declaration.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np

from palpate.errors import ConfigError
from palpate.models.devices import Device
from palpate.models.text import Ints
from palpate.models.text.passes import ChunkPasses, Form, LabelAttention, Passes, embedding_of, logits_of, parts_of
from palpate.models.text.windows import Frame, Long

_NO_POSITIONS = 512
"""For networks that do not say how many positions they have."""
_MOST_POSITIONS = 1024
"""Encoders with more positions read long notes anyway, and a note beyond them would be slow to try."""
_TOLERANCE = 1e-3


class Reading(NamedTuple):
    """What is done with long notes."""

    long: Long
    chunk: int | None = None
    max_tokens: int | None = None


def has_own_code(network: Any) -> bool:
    """Whether a network is not one of the library's own."""
    return not type(network).__module__.startswith("transformers.")


def reading_of(network: Any, long: Long | None, chunk: int | None, max_tokens: int | None) -> Reading:
    """What was asked for; where nothing was, what the configuration of a checkpoint with code of its own says.

    That is `chunk_size`, and `max_tokens`, `max_seq_length`, `max_length` or `num_chunks` for how much it reads in all.
    """
    declared = _number(network, "chunk_size") if has_own_code(network) else None
    if long is None:
        long = "chunked" if chunk or declared else "truncate"
    if long != "chunked":
        return Reading(long, None, max_tokens)
    chunk = chunk or declared
    named = [_number(network, name) for name in ("max_tokens", "max_seq_length", "max_length")]
    n_chunks = _number(network, "num_chunks") or _number(network, "max_chunks")
    named.append(n_chunks * chunk if n_chunks and chunk else None)
    known = [n for n in named if n is not None and n > (chunk or 0)]
    return Reading(long, chunk, max_tokens or next(iter(known), None))


def _number(network: Any, name: str) -> int | None:
    value = getattr(network.config, name, None) if has_own_code(network) else None
    return value if isinstance(value, int) and value > 0 and not isinstance(value, bool) else None


class Trial(NamedTuple):
    """A network to try, and what is known of it."""

    network: Any
    frame: Frame
    pad: int | None
    n_outputs: int
    positions: int | None
    words: Ints
    """Ids of ordinary tokens."""
    source: str
    device: Device

    @classmethod
    def of(
        cls, network: Any, tokenizer: Any, frame: Frame, *, positions: int | None, source: str, device: Device
    ) -> Trial:
        """The network with its tokenizer."""
        special = {*tokenizer.all_special_ids, *frame.before, *frame.after}
        size = min(len(tokenizer), int(getattr(network.config, "vocab_size", len(tokenizer))))
        words = np.asarray([token for token in range(size) if token not in special] or [0], dtype=np.int64)
        pad, n_outputs = tokenizer.pad_token_id, int(network.config.num_labels)
        return cls(network, frame, None if pad is None else int(pad), n_outputs, positions, words, source, device)

    def notes(self, n_tokens: int, n_changed: int = 0) -> list[list[int]]:
        """Two notes of this length; with `n_changed` they differ in that many tokens at their end, else in all."""
        inside = max(n_tokens - len(self.frame.before) - len(self.frame.after), 1)
        first = self.words[np.arange(inside) * 7 % len(self.words)]
        second = self.words[(np.arange(inside) * 11 + 3) % len(self.words)]
        if n_changed:
            second = np.concatenate([first[:-n_changed], second[-n_changed:]])
        return [[*self.frame.before, *part.tolist(), *self.frame.after] for part in (first, second)]

    def logits(self, passes: Passes, ids: list[list[int]], **more: Any) -> Any:
        """What the network gives, one row per note."""
        import torch

        with torch.inference_mode(), self.device.autocast():
            found = logits_of(self.network(**passes.tensors(ids), **more))
        if tuple(found.shape) != (len(ids), self.n_outputs):
            raise ValueError(f"it gives {list(found.shape)} for {len(ids)} notes and {self.n_outputs} labels")
        return found


def chunk_passes(trial: Trial, *, chunk: int | None, max_tokens: int | None) -> ChunkPasses:
    """How the network takes notes, tried out; refused if it does not read what it says it reads."""
    positions = trial.positions or _NO_POSITIONS
    if chunk is not None and trial.positions is not None and chunk > trial.positions:
        raise ConfigError(f"{trial.source}: chunk is {chunk}, but the encoder has {positions} positions")
    longest = max_tokens or max(2 * positions + 3, 3 * (chunk or 0) + 1)
    n_tokens = min(longest, chunk + chunk // 2 + 1 if chunk else 2 * positions + 3)
    passes, wrong = _form(trial, chunk, n_tokens)
    if passes is None:
        raise ConfigError(
            f"{trial.source}: the checkpoint does not take notes of {n_tokens} tokens: {wrong}",
            hint="if it cuts notes into chunks, say how long they are (`chunk: 128`); if it does not, leave out "
            "`chunk` and `long: chunked`, or read long notes in windows (`long: sliding`)",
        )
    _check_reads(trial, passes, longest, chunk)
    _find_explanations(trial, passes, n_tokens)
    return passes


def plain_passes(trial: Trial) -> Passes:
    """The passes of a network that is given rows of tokens; one with code of its own may turn out to read whole notes.

    Such a network is given more tokens than its encoder has positions: a plain one fails then. That is not tried on a
    GPU, where such a failure ends the process.
    """
    plain = Passes(trial.frame, trial.pad, trial.device)
    if not has_own_code(trial.network):
        return plain
    try:
        trial.logits(plain, trial.notes(min(trial.positions or 16, 16)))
    except Exception as error:
        raise ConfigError(
            f"{trial.source}: the checkpoint refuses token ids of the shape [notes, tokens]: {_said(error)}",
            hint="if it takes [notes, chunks, tokens], say how long its chunks are: `chunk: 128`",
        ) from error
    on_cpu = all(weight.device.type == "cpu" for weight in trial.network.parameters())
    if not on_cpu or (trial.positions or 0) > _MOST_POSITIONS:
        return plain
    try:
        return chunk_passes(trial, chunk=None, max_tokens=None)
    except ConfigError:
        return plain


def _said(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _form(trial: Trial, chunk: int | None, n_tokens: int) -> tuple[ChunkPasses | None, str]:
    """The first form that the network takes, or what it said to the last one."""
    wrong = ""
    forms: tuple[Form, ...] = ("rows",) if chunk is None else ("rows", "filled rows", "chunks")
    for form in forms:
        passes = ChunkPasses(trial.frame, trial.pad, form, chunk, trial.device)
        try:
            trial.logits(passes, trial.notes(n_tokens))
        except Exception as error:  # code of the checkpoint: anything can happen
            wrong = _said(error)
        else:
            return passes, ""
    return None, wrong


def _check_reads(trial: Trial, passes: ChunkPasses, longest: int, chunk: int | None) -> None:
    """That the end of the longest note changes the answer."""
    n_changed = min(chunk or longest // 4, longest // 2)
    try:
        found = trial.logits(passes, trial.notes(longest, max(n_changed, 1)))
    except Exception as error:
        raise ConfigError(
            f"{trial.source}: the checkpoint fails on a note of {longest} tokens: {_said(error)}"
        ) from error
    if bool((found[0] == found[1]).all()):
        raise ConfigError(
            f"{trial.source}: the end of a note of {longest} tokens does not change the answer, so the checkpoint "
            "does not read that much",
            hint="set `max_tokens` to what it reads",
        )


def _find_explanations(trial: Trial, passes: ChunkPasses, n_tokens: int) -> None:
    """Whether the network returns the attention of its labels, and whether gradients can be followed to tokens."""
    n_tokens += n_tokens == trial.n_outputs  # otherwise labels and tokens could not be told apart
    ids = trial.notes(n_tokens)
    passes.attention = _attention(trial, passes, ids)
    width = _embedded_width(trial, passes, ids)
    passes.gradients = width is not None
    passes.embedded = width if width is not None and width < n_tokens else None


def _embedded_width(trial: Trial, passes: Passes, ids: list[list[int]]) -> int | None:
    """How many tokens a row of the embedding has, if it is called once, with all tokens of each note in order."""
    seen: list[Any] = []
    embedding = embedding_of(trial.network)
    if embedding is None:
        return None
    hook = embedding.register_forward_hook(
        lambda _, given, named, __: seen.append(given[0] if given else named.get("input_ids")), with_kwargs=True
    )
    try:
        trial.logits(passes, ids)
    finally:
        hook.remove()
    if len(seen) != 1 or seen[0] is None or seen[0].ndim != 2 or len(seen[0]) % len(ids):
        return None
    in_order = seen[0].reshape(len(ids), -1)[:, : len(ids[0])].tolist()
    return int(seen[0].shape[1]) if in_order == ids else None


def _attention(trial: Trial, passes: Passes, ids: list[list[int]]) -> LabelAttention | None:
    import torch

    takes = inspect.signature(trial.network.forward).parameters
    ways: list[tuple[str, ...]] = [
        (),
        *((name,) for name in ("output_attentions", "output_attention") if name in takes),
    ]
    for asked_by in ways:
        try:
            with torch.inference_mode(), trial.device.autocast():
                output = trial.network(**passes.tensors(ids), **dict.fromkeys(asked_by, True))
        except Exception:  # code of the checkpoint: what it does not return, it does not explain by
            continue
        for name, part in parts_of(output).items():
            for labels_last in (False, True):
                if _is_label_attention(part, len(ids), trial.n_outputs, len(ids[0]), labels_last=labels_last):
                    return LabelAttention(name, labels_last, asked_by)
    return None


def _is_label_attention(part: Any, n: int, n_outputs: int, n_tokens: int, *, labels_last: bool) -> bool:
    """Whether this is a distribution over the tokens, for each label of each note."""
    if getattr(part, "ndim", 0) != 3 or not part.is_floating_point():
        return False
    weights = part.transpose(1, 2) if labels_last else part
    if tuple(weights.shape[:2]) != (n, n_outputs) or weights.shape[2] < n_tokens:
        return False
    return bool((weights >= 0).all() and ((weights.sum(2) - 1).abs() < _TOLERANCE).all())
