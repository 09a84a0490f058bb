"""What is fuzzed of models: manifests, files, word vectors, examples, images and cards, and the cache of scores."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from palpate.data.tables import read_pretest_card
from palpate.models.adapters.chat.examples import read_examples
from palpate.models.adapters.chat.options import ChatOptions
from palpate.models.adapters.chat.reading import NotAChat, readings
from palpate.models.adapters.palpate import read_manifest
from palpate.models.adapters.sklearn import EstimatorOptions, read_estimator
from palpate.models.networks.vision.images import ImageFormat, read_all
from palpate.report.cards.facts import read_facts
from palpate.run.cache_care import check_cache, read_models
from palpate.run.execute.cache import ScoreCache
from palpate.train.coding.vectors import read_vectors
from reliability.seeds import Reader

_WORDS = ("fever", "cough")
_MANIFEST = json.dumps(
    {"format": 1, "kind": "sklearn", "labels": ["sick"], "threshold": 0.3, "card": {"a": 1}}
).encode()
_CARD = json.dumps(
    {
        "kind": "pretest",
        "job": "j",
        "labels": [
            {
                **{"label": "sick", "chosen": {"classifier": "lr", "features": "words", "family": "notes"}},
                **{"performance": {"out_of_fold": {"auroc": 0.7}}, "words": [["fever", 0.5], ["well", -1]]},
            }
        ],
    }
).encode()
_FACTS = b"intended_use: to be read\ndeveloper: [a, b]\n"
_PARSERS = ("yes-no", "number", "logprobs", "json", r"risk: (\S+)")


def _answer(text: str) -> bytes:
    token = {
        "token": "Yes",
        "logprob": -0.1,
        "top_logprobs": [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}],
    }
    choice = {
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "logprobs": {"content": [token]},
    }
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}).encode()


def _answered(path: Path) -> object:
    """The answer of a chat endpoint, read in every way."""
    try:
        answer: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    for parser in _PARSERS:
        own = ChatOptions.model_validate(
            {"api": "chat", "model": "m", "prompt": "{text}?", "parser": parser, "labels": ["sick"]}
        )
        try:
            readings(answer, own, ["sick"])
        except NotAChat:
            continue
    return None


def _manifest(path: Path) -> object:
    shutil.copyfile(path, path.with_name("palpate.json"))
    return read_manifest(path.parent)


def _skops(path: Path) -> object:
    return read_estimator(path.read_bytes(), EstimatorOptions(), file=path)


def _image(path: Path) -> object:
    return list(read_all([str(path)], ["c"], ImageFormat(image_size=8, bits=8)))


def _examples(path: Path) -> object:
    return read_examples(path, ["sick"], as_json=False)


def _cached(path: Path) -> object:
    """A cache of scores: as a run opens and asks it, and as `palpate cache` looks at it."""
    for rest in ("-wal", "-shm"):
        path.with_name(path.name + rest).unlink(missing_ok=True)
    cache = ScoreCache(path)
    try:
        cache.get("f", np.arange(4, dtype=np.uint64).reshape(2, 2), 1)
    finally:
        cache.close()
    return read_models(path), check_cache(path)


def _cache() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cache.sqlite"
        cache = ScoreCache(file)
        cache.put("f", np.arange(4, dtype=np.uint64).reshape(2, 2), np.array([[0.25], [0.5]]))
        cache.close()
        return file.read_bytes()


def _estimator() -> bytes:
    import skops.io
    from sklearn.linear_model import LogisticRegression

    dumped: bytes = skops.io.dumps(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    return dumped


def _picture() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.arange(144, dtype=np.uint8).reshape(12, 12)).save(out, "PNG")
    return out.getvalue()


_VECTORS = (
    b"2 3\nfever 0.1 0.2 0.3\ncough 1 2 3\n",
    b"fever 0.5 -1\ncough 1e-3 2\n",
    b"2 2\nfever " + np.array([1, 2], "<f4").tobytes() + b"\ncough " + np.array([3, 4], "<f4").tobytes() + b"\n",
)

READERS = (
    Reader("manifest", ".json", _manifest, (_MANIFEST,), share=80),
    Reader("skops", ".skops", _skops, (_estimator(),), share=80),
    Reader("vectors", ".vec", lambda path: read_vectors(path, _WORDS), _VECTORS, share=80),
    Reader(
        "examples", ".yaml", _examples, (b"- {text: fever, answer: 'yes'}\n- {text: none, answer: 'no'}\n",), share=80
    ),
    Reader(
        "examples.jsonl",
        ".jsonl",
        _examples,
        (b'{"text": "a", "answer": "yes"}\n{"text": "b", "answer": "no"}\n',),
        share=80,
    ),
    Reader("examples.csv", ".csv", _examples, (b"text,answer\nfever,yes\nnone,no\n",), share=80),
    Reader(
        "chat answer", ".json", _answered, (_answer("Yes"), _answer('{"sick": 0.3}'), _answer("risk: 12%")), share=80
    ),
    Reader("facts", ".yaml", read_facts, (_FACTS,), share=80),
    Reader("pretest card", ".json", read_pretest_card, (_CARD,), share=80),
    Reader("image", ".png", _image, (_picture(),)),
    Reader("cache", ".sqlite", _cached, (_cache(),), share=5),
)
