"""The transformers adapter, against one text at a time through the library's own calls."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.cases.edits import Edit, Inputs, splice
from palpate.errors import ConfigError, MissingExtra
from palpate.models import ModelSpec, load_model
from palpate.models.text import attention_mask, batches_within, padded
from palpate.models.text.windows import text_windows
from tests.models.tiny_checkpoints import byte_level, checkpoint, note, unigram, wordpiece

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORD_COUNTS = (3, 120, 0, 9, 1, 700, 25, 25, 2)


@pytest.fixture(scope="module")
def notes() -> list[str]:
    rng = np.random.default_rng(7)
    return [*(note(rng, n) for n in WORD_COUNTS), "🙂 Zürich naïve", "[SEP] [MASK] x", " \n "]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("bert"))


def load(path: Path, **options: Any) -> Any:
    return load_model(ModelSpec("m", f"hf:{path}", options=options))


def predict(path: Path, texts: list[str], **options: Any) -> np.ndarray:
    return load(path, **options).predict(Inputs.from_texts(texts))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler on a CPU")
def test_a_compiled_network_gives_the_same_predictions(bert: Path, notes: list[str]) -> None:
    model = load(bert, compile=True, device="cpu")
    calls = []
    network = model._forward
    model._forward = lambda **batch: calls.append(1) or network(**batch)
    got = model.predict(Inputs.from_texts(notes))
    assert calls
    assert type(network).__name__ == "OptimizedModule"
    np.testing.assert_allclose(got, predict(bert, notes), rtol=0, atol=1e-5)


def slow(path: Path, texts: list[str], activation: str, pooling: str = "mean", **tokenising: Any) -> np.ndarray:
    """Each text by itself, each window by itself, nothing padded."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    rows = []
    for text in texts:
        windows = tokenizer(text, truncation=True, return_overflowing_tokens=True, **tokenising)["input_ids"]
        if "stride" not in tokenising:
            windows = windows[:1]
        with torch.inference_mode():
            logits = [network(input_ids=torch.tensor([window])).logits.double() for window in windows]
        p = torch.cat([x.sigmoid() if activation == "sigmoid" else x.softmax(-1) for x in logits])
        rows.append((p.max(0).values if pooling == "max" else p.mean(0)).numpy())
    return np.array(rows)


@pytest.mark.parametrize("family", ["Bert", "DistilBert", "Roberta", "GPT2"])
def test_two_classes_are_one_label(tmp_path: Path, family: str, notes: list[str]) -> None:
    path = checkpoint(tmp_path, family, names=["not returns", "returns"])
    model = load(path)
    assert model.labels == ("returns",)
    assert model.window == "the first 32 tokens"
    got = model.predict(Inputs.from_texts(notes))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, slow(path, notes, "softmax")[:, 1:], atol=1e-6)
    assert np.ptp(got) > 0.01, "the answers must differ, or the test shows nothing"


@pytest.mark.parametrize(
    ("n_outputs", "problem_type", "activation", "labels"),
    [
        (1, None, "sigmoid", ("a",)),
        (1, "multi_label_classification", "sigmoid", ("a",)),
        (2, "multi_label_classification", "sigmoid", ("a", "b")),
        (3, None, "softmax", ("a", "b", "c")),
        (3, "single_label_classification", "softmax", ("a", "b", "c")),
        (3, "multi_label_classification", "sigmoid", ("a", "b", "c")),
    ],
)
def test_activation(
    tmp_path: Path,
    notes: list[str],
    n_outputs: int,
    problem_type: str | None,
    activation: str,
    labels: tuple[str, ...],
) -> None:
    path = checkpoint(tmp_path, n_outputs=n_outputs, problem_type=problem_type, names=labels)
    model = load(path)
    assert model.labels == labels
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), slow(path, notes, activation), atol=1e-6)
    if activation == "softmax":
        np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)).sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_sliding_windows(tmp_path: Path, notes: list[str], family: str, pooling: str) -> None:
    path = checkpoint(tmp_path, family, n_outputs=2, problem_type="multi_label_classification")
    model = load(path, long="sliding", stride=5, pooling=pooling, max_tokens=20)
    assert model.window is None
    wanted = slow(path, notes, "sigmoid", pooling, stride=5, max_length=20)
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), wanted, atol=1e-6)
    assert list(model.visible_ends(notes)) == [len(text) + 1 for text in notes]


def test_equal_windows_are_run_once(bert: Path) -> None:
    model = load(bert, long="sliding", stride=0)
    seen: list[int] = []
    model._network.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    parent = "patient with chest pain " * 40
    texts = [parent + end for end in ("fever", "cough", "sepsis")]
    got = model.predict(Inputs.from_texts(texts))
    alone = np.concatenate([model.predict(Inputs.from_texts([text])) for text in texts])
    np.testing.assert_allclose(got, alone, atol=1e-6)
    n_windows = len(model._windows.encode([parent]).ids)
    assert sum(seen[:1]) < n_windows + 3


def test_roberta_reads_as_many_tokens_as_it_has_positions(tmp_path: Path, notes: list[str]) -> None:
    tokenizer = byte_level(max_length=100_000)
    path = checkpoint(tmp_path, "Roberta", max_length=24, tokenizer=tokenizer)
    model = load(path)
    assert model._windows.max_tokens == 24, "26 position embeddings, of which the first two are never used"
    got = model.predict(Inputs.from_texts(notes))
    np.testing.assert_allclose(got, slow(path, notes, "softmax", max_length=24)[:, 1:], atol=1e-6)
    with pytest.raises(ConfigError, match="24 positions"):
        load(path, max_tokens=25)


def test_checkpoint_with_a_vocabulary_only(tmp_path: Path, notes: list[str]) -> None:
    """As older checkpoints are: vocab.txt, and no tokenizer.json."""
    path = checkpoint(tmp_path)
    tokens = wordpiece().get_vocab()
    (path / "vocab.txt").write_text("\n".join(sorted(tokens, key=tokens.__getitem__)))
    (path / "tokenizer.json").unlink()
    (path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    model = load(path)
    assert model.window == "the first 32 tokens"
    assert model.visible_ends(notes)[1] < len(notes[1]) / 2
    wanted = slow(path, notes, "softmax", max_length=32)[:, 1:]
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), wanted, atol=1e-6)


def test_tokenizers_limit_counts_when_it_is_lower(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, max_length=64, tokenizer=wordpiece(max_length=16))
    assert load(path).window == "the first 16 tokens"
    assert load(path, max_tokens=40).window == "the first 40 tokens"


def test_order_rows_and_batches_do_not_matter(bert: Path, notes: list[str]) -> None:
    model = load(bert)
    whole = model.predict(Inputs.from_texts(notes))
    shuffled = np.random.default_rng(1).permutation(len(notes))
    np.testing.assert_allclose(
        model.predict(Inputs.from_texts([notes[i] for i in shuffled])), whole[shuffled], atol=1e-6
    )
    np.testing.assert_allclose(predict(bert, notes, batch_tokens=33), whole, atol=1e-6)
    np.testing.assert_array_equal(model.predict(Inputs.from_texts(notes)), whole)
    assert model.predict(Inputs.from_texts([])).shape == (0, 1)


def test_bfloat16_is_close(tmp_path: Path, notes: list[str]) -> None:
    path = checkpoint(tmp_path, n_outputs=3, problem_type="multi_label_classification")
    exact, low = predict(path, notes), predict(path, notes, dtype="bfloat16")
    np.testing.assert_allclose(low, exact, atol=2e-2)
    assert not np.array_equal(low, exact)


def test_without_a_padding_token(tmp_path: Path, notes: list[str]) -> None:
    tokenizer = byte_level()
    tokenizer.pad_token = None
    path = checkpoint(tmp_path, "GPT2", tokenizer=tokenizer, pad_token_id=None)
    np.testing.assert_allclose(predict(path, notes), slow(path, notes, "softmax")[:, 1:], atol=1e-6)


def test_token_types_of_the_special_tokens_are_kept(tmp_path: Path, notes: list[str]) -> None:
    from tokenizers import processors

    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:1 $A:0 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    path = checkpoint(tmp_path, tokenizer=tokenizer)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    reread = transformers.AutoTokenizer.from_pretrained(path)
    with torch.inference_mode():
        wanted = [
            network(**reread(text, truncation=True, return_tensors="pt")).logits.double().softmax(-1)[0, 1]
            for text in notes
        ]
    np.testing.assert_allclose(predict(path, notes)[:, 0], wanted, atol=1e-6)


TOKENIZERS = {"wordpiece": wordpiece(12), "byte level": byte_level(12)}
PARTS = [" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u2003", "\x0b", "patient", "pains", "µg", "e\u0301", "\u0301"]
PARTS += [
    "diabete",
    "s",
    "creatinin",
    "e",
    "pa",
    "in",
    "🙂",
    "'s",
    "'",
    ".",
    "...",
    "98.6",
    "[SEP]",
    "<mask>",
    "</s>",
    "İ",
    "Σ",
    "中文",
    "\u200b",
    "a" * 130,
]
GAPS = ["", " ", " ", "  ", "   ", "     ", "\n", "\t ", "\xa0 "]
LONG_TEXTS = st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(GAPS)), min_size=6, max_size=20).map(
    lambda pairs: "".join(part + gap for part, gap in pairs)
)
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join) | st.text(max_size=60)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=250, deadline=None)
def test_edits_behind_the_visible_end_change_no_token(kind: str, data: st.DataObject) -> None:
    windows = text_windows(TOKENIZERS[kind], long="truncate", max_tokens=None, limit=None, stride=None, source="t")
    text = data.draw(LONG_TEXTS)
    end = int(windows.visible_ends([text])[0])
    if end > len(text):
        assert end == len(text) + 1
        return
    start = data.draw(st.just(end) | st.integers(end, len(text)))
    stop = data.draw(st.just(len(text)) | st.just(start) | st.integers(start, len(text)))
    edited = splice(text, [Edit(start, stop, data.draw(st.just("") | st.sampled_from(PARTS) | TEXTS))])
    assert windows.encode([edited]).ids == windows.encode([text]).ids


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS | LONG_TEXTS | st.lists(st.sampled_from(PARTS), min_size=100, max_size=300).map("".join))
@settings(max_examples=200, deadline=None)
def test_leaving_the_end_of_a_note_untokenised_changes_nothing(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    windows = text_windows(tokenizer, long="truncate", max_tokens=None, limit=None, stride=None, source="t")
    assert windows.only_head
    clean = text.encode("utf-8", "replace").decode()
    assert windows.encode([text]).ids == [tokenizer(clean, truncation=True)["input_ids"]]


def test_visible_end_is_not_far_behind_the_last_token() -> None:
    windows = text_windows(
        TOKENIZERS["wordpiece"], long="truncate", max_tokens=None, limit=None, stride=None, source="t"
    )
    text = "patient " * 50
    assert windows.visible_ends([text, "patient", ""]).tolist() == [10 * len("patient "), 8, 1]


def test_wrong_offsets_are_noticed() -> None:
    class Lying:
        """A tokenizer that says that every token is at the start."""

        def __call__(self, texts: list[str], **options: Any) -> Any:
            answer = TOKENIZERS["wordpiece"](texts, **options)
            encodings = [SimpleEncoding(encoding) for encoding in answer.encodings]
            return type("Answer", (dict,), {"encodings": encodings})(answer)

    class SimpleEncoding:
        def __init__(self, encoding: Any) -> None:
            self.ids, self.offsets = encoding.ids, [(0, 1) for _ in encoding.ids]

        def __len__(self) -> int:
            return len(self.ids)

    windows = text_windows(
        TOKENIZERS["wordpiece"], long="truncate", max_tokens=None, limit=None, stride=None, source="t"
    )
    text = "patient " * 50
    assert replace(windows, tokenizer=Lying()).visible_ends([text]).tolist() == [len(text) + 1]


def test_no_visible_end_for_other_tokenizers(tmp_path: Path, notes: list[str]) -> None:
    for n, tokenizer in enumerate([unigram(), wordpiece(truncation_side="left")]):
        path = checkpoint(tmp_path / str(n), tokenizer=tokenizer)
        model = load(path)
        assert model.visible_ends(notes).tolist() == [len(text) + 1 for text in notes]
        np.testing.assert_allclose(
            model.predict(Inputs.from_texts(notes)), slow(path, notes, "softmax")[:, 1:], atol=1e-6
        )
    assert model.window == "the last 32 tokens"


def test_added_token_with_a_space_is_not_local(tmp_path: Path) -> None:
    tokenizer = wordpiece()
    tokenizer.add_tokens(["chest pain"])
    windows = text_windows(tokenizer, long="truncate", max_tokens=None, limit=None, stride=None, source="t")
    assert not windows.only_head


@given(
    lengths=st.lists(st.integers(0, 600), max_size=80),
    budget=st.integers(1, 5000),
    max_rows=st.none() | st.integers(1, 9),
)
def test_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int, max_rows: int | None) -> None:
    array = np.array(lengths, dtype=np.int64)
    batches = list(batches_within(budget, array, max_rows=max_rows))
    assert sorted(int(row) for rows in batches for row in rows) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or array[rows].max() * len(rows) <= budget
        assert max_rows is None or len(rows) <= max_rows


def test_padding() -> None:
    assert padded([[1, 2, 3], [4]], 9).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert attention_mask(np.array([3, 1])).tolist() == [[1, 1, 1], [1, 0, 0]]


def test_fingerprint_follows_files_and_options(bert: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(bert, tmp_path / "copy")
    first = load(bert).fingerprint
    assert load(copied).fingerprint == first
    assert load(copied, batch_tokens=64, batch_size=3).fingerprint == first
    (copied / "trainer.log").write_text("not part of the model")
    assert load(copied).fingerprint == first
    others = [{"dtype": "bfloat16"}, {"max_tokens": 16}, {"long": "sliding"}, {"fingerprint": "v2"}]
    others += [{"long": "sliding", "pooling": "max"}, {"long": "sliding", "stride": 3}]
    assert len({first, *(load(copied, **options).fingerprint for options in others)}) == 7
    checkpoint(copied, seed=1)
    assert load(copied).fingerprint != first


def test_nothing_touches_the_network(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert predict(bert, ["patient"]).shape == (1, 1)


def test_hub_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="bert-base-uncased: checkpoint folder not found; nothing is downloaded"):
        load(Path("bert-base-uncased"))


def spoil(path: Path, **changes: Any) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))


def test_missing_head_is_an_error(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, task="MaskedLM")
    with pytest.raises(ConfigError, match="BertForMaskedLM, not of a sequence classifier"):
        load(path)
    spoil(path, architectures=["BertForSequenceClassification"])
    with pytest.raises(ConfigError, match=r"lacks .* weights .* classifier"):
        load(path)
    spoil(path, architectures=None)
    with pytest.raises(ConfigError, match=r"lacks .* weights"):
        load(path)


def test_head_of_another_size_is_an_error(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, n_outputs=2)
    spoil(path, id2label={str(i): str(i) for i in range(5)}, label2id={str(i): i for i in range(5)})
    with pytest.raises(ConfigError, match="weights"):
        load(path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"problem_type": "regression"}, "not probabilities"),
        ({"problem_type": "single_label_classification"}, "only one class|num_labels > 1"),
    ],
)
def test_tasks_that_give_no_probability(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    path = checkpoint(tmp_path, n_outputs=1)
    spoil(path, **changes)
    with pytest.raises(ConfigError, match=match):
        load(path)


def test_pickled_weights_need_trust(tmp_path: Path, notes: list[str]) -> None:
    path = checkpoint(tmp_path)
    wanted = predict(path, notes)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(path)
    torch.save(network.state_dict(), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"pytorch_model.bin: these weights are a pickle.*`trust`"):
        load(path)
    np.testing.assert_array_equal(predict(path, notes, trust=True), wanted)
    (path / "pytorch_model.bin").unlink()
    with pytest.raises(ConfigError, match="no weights"):
        load(path)


def test_code_in_the_checkpoint_needs_trust(tmp_path: Path) -> None:
    path = checkpoint(tmp_path)
    (path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    spoil(path, model_type="own-model", auto_map={"AutoConfig": "own.OwnConfig"})
    with pytest.raises(ConfigError, match=r"runs code of its own: own.py"):
        load(path)
    assert not (tmp_path / "ran").exists()


def test_unreadable_folders(tmp_path: Path, bert: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config.json"):
        load(tmp_path)
    bare = shutil.copytree(bert, tmp_path / "bare")
    for file in bare.glob("token*"):
        file.unlink()
    with pytest.raises(ConfigError, match=r"bare: the tokenizer can't be loaded"):
        load(bare)
    empty = shutil.copytree(bert, tmp_path / "empty")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # what the library makes of a vocabulary that it ignores
    transformers.BertTokenizerFast(vocab={token: k for k, token in enumerate(special)}).save_pretrained(empty)
    with pytest.raises(ConfigError, match=r"empty: the tokenizer knows no words, only special tokens"):
        load(empty)
    broken = shutil.copytree(bert, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(ConfigError, match=r"broken: the weights can't be loaded"):
        load(broken)


def test_wrong_options(bert: Path) -> None:
    assert load(bert, labels=["readmission"]).labels == ("readmission",)
    with pytest.raises(ConfigError, match="names 2 labels, but the model gives 1"):
        load(bert, labels=["no", "yes"])
    with pytest.raises(ConfigError, match="stirde"):
        load(bert, stirde=3)
    with pytest.raises(ConfigError, match="no room"):
        load(bert, max_tokens=2)
    with pytest.raises(ConfigError, match="stride is 30"):
        load(bert, long="sliding", stride=30)


def test_threads_are_set_when_asked(bert: Path) -> None:
    before = torch.get_num_threads()
    try:
        load(bert)
        assert torch.get_num_threads() == before
        load(bert, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_missing_torch_names_the_extra(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        load(bert)
