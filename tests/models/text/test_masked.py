"""The masked language model against one place at a time through the library's own calls."""

from __future__ import annotations

import socket
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.config.audits import make_audit
from palpate.errors import ConfigError, MissingExtra
from palpate.models.devices import devices_here
from palpate.models.text import masked
from palpate.models.text.masked import load_masked
from palpate.perturb.words import Hits, find_words
from palpate.perturb.words.substitutes import context_substitutes, whole_words
from palpate.perturb.words.tokens import normalise_word
from palpate.run.runner import LoadedModels
from tests.models.tiny_checkpoints import LETTERS, PIECES, WORDS, checkpoint, note, wordpiece

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TARGETS = ["fever", "chest pain", "diabetes", "acetaminophen", "98.6"]


@pytest.fixture(scope="module", params=["Bert", "DistilBert", "Roberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp(request.param), request.param, task="MaskedLM", max_length=64)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("bert"), task="MaskedLM", max_length=64)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = np.random.default_rng(1)
    return [*(note(rng, n) for n in (5, 12, 90, 300, 30)), "fever", "Chest  pain.", "🙂 naïve fever, fever"]


@lru_cache(maxsize=8)
def loaded(path: Path) -> tuple[Any, Any]:
    network = transformers.AutoModelForMaskedLM.from_pretrained(path).eval()
    return transformers.AutoTokenizer.from_pretrained(path), network


@lru_cache(maxsize=8)
def answers(path: Path) -> dict[int, str]:
    return allowed_tokens(loaded(path)[0])


def allowed_tokens(tokenizer: Any) -> dict[int, str]:
    """Tokens that may be answers, by another way than the code's: look at what the token decodes to."""
    marked = any(entry.startswith("Ġ") for entry in tokenizer.get_vocab())
    kept = {}
    for entry, number in tokenizer.get_vocab().items():
        word = tokenizer.convert_tokens_to_string([entry])
        begins = word.startswith(" ") if marked else not entry.startswith("##")
        plain = word.strip()
        if (
            number not in tokenizer.all_special_ids
            and begins
            and plain.isalpha()
            and plain.isascii()
            and len(plain) > 1
        ):
            kept[number] = plain
    return kept


def slow(path: Path, text: str, start: int, end: int, n: int, max_tokens: int, exclude: set[str]) -> list[str]:
    """One place: the text with the mask in it, through tokenizer and network, cut to the tokens around."""
    tokenizer, network = loaded(path)
    before = text[:start]
    if "Roberta" in type(network).__name__ and before.endswith(" "):
        before = before[:-1]  # the mask of such models takes the space before it
    left = tokenizer(before, add_special_tokens=False)["input_ids"]
    right = tokenizer(text[end:], add_special_tokens=False)["input_ids"]
    room = max_tokens - 3
    n_left = min(len(left), max(room // 2, room - len(right)))
    left, right = left[len(left) - n_left :], right[: room - n_left]
    first, last = tokenizer("")["input_ids"]
    ids = [first, *left, tokenizer.mask_token_id, *right, last]
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([ids])).logits[0, 1 + len(left)].numpy()
    words: dict[str, float] = {}
    for number, word in answers(path).items():
        words[word.lower()] = max(float(logits[number]), words.get(word.lower(), -np.inf))
    return sorted(set(words) - exclude, key=lambda word: -words[word])[:n]


@pytest.mark.parametrize("max_tokens", [64, 20])
def test_the_likeliest_words_are_those_of_a_plain_forward_pass(folder: Path, texts: list[str], max_tokens: int) -> None:
    model = load_masked(folder, max_tokens=max_tokens)
    hits = find_words(texts, TARGETS, occurrences="first")
    assert len(hits.text) > 8
    barred = [{"cough", "with"}, set(), {"patient"}, set(), set()]
    exclude = [np.asarray([k for k, w in enumerate(model.words) if normalise_word(w) in bar]) for bar in barred]
    best = model.likeliest(texts, hits, 4, exclude=[codes.astype(np.int64) for codes in exclude])
    for row, (text, word, start, end) in enumerate(zip(*hits, strict=True)):
        wanted = slow(folder, texts[text], int(start), int(end), 4, max_tokens, barred[word])
        assert [normalise_word(model.words[code]) for code in best[row]] == wanted


def test_only_whole_words_are_answers(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = load_masked(folder)
    assert {normalise_word(word) for word in model.words} == {w.lower() for w in allowed_tokens(tokenizer).values()}
    in_order = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    assert model.words == whole_words(in_order)
    for number, k in enumerate(model.word_of):
        if k >= 0:
            decoded = tokenizer.convert_tokens_to_string([tokenizer.convert_ids_to_tokens(number)]).strip()
            assert normalise_word(decoded) == normalise_word(model.words[k])


def test_two_spellings_are_one_answer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Fever", "fever", "COPD", "pain", "FEVER"]
    backend = Tokenizer(models.WordPiece({w: k for k, w in enumerate(listed)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=32, **special)
    model = load_masked(checkpoint(tmp_path, task="MaskedLM", tokenizer=tokenizer))
    assert model.words == ("fever", "COPD", "pain")
    best = model.likeliest(["has pain now"], find_words(["has pain now"], ["pain"]), 5)
    assert sorted(best[0].tolist()) == [-1, -1, 0, 1, 2]


def test_it_serves_as_a_context_model(bert: Path, texts: list[str]) -> None:
    hits = find_words(texts, ["fever"])
    offered = context_substitutes(["fever"], hits, texts, load_masked(bert), 5)
    assert offered.choice.shape == (len(hits.text), 5)
    assert "fever" not in {word for row in range(len(hits.text)) for word in offered.of(row)}


def test_the_audit_says_where_its_language_model_computes(
    bert: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = list[str]()
    real = masked.MaskedModel.likeliest

    def watched(self: Any, *given: Any, **more: Any) -> Any:
        used.append(str(self.device))
        return real(self, *given, **more)

    monkeypatch.setattr(masked.MaskedModel, "likeliest", watched)
    rows = {"case_id": [str(k) for k in range(len(texts))], "text": texts, "ill": [0, 1] * (len(texts) // 2)}
    cohort = Cohort.from_frame(pl.DataFrame(rows), labels=["ill"])

    def plan(language_model: Any) -> Any:
        audit = make_audit("vocabulary", {"words": ["fever"], "filters": ["context"], "language_model": language_model})
        return audit.plan_with(cohort, np.random.default_rng(0), LoadedModels({}, Path()))

    plan(f"hf:{bert}")
    plan({"source": f"hf:{bert}", "device": "cpu", "dtype": "bfloat16"})
    assert used == [f"{devices_here()[0]}, float32", "cpu, bfloat16"]
    for wrong, problem in [
        ({"device": "cuda:7"}, "device 'cuda:7' is not on this machine"),
        ({"device": "gpu"}, "'device' of the language model.*'gpu' is not auto, cpu"),
        ({"dtype": "int8"}, "'dtype' of the language model"),
        ({"divice": "cpu"}, "'divice' of the language model.*unknown"),
        ({"source": None}, "audit 'vocabulary', option 'language_model"),
    ]:
        with pytest.raises(ConfigError, match=problem):
            plan({"source": f"hf:{bert}", **wrong})
    with pytest.raises(ConfigError, match="`language_model` has no `source`"):
        plan({"device": "cpu"})


def test_memory_that_runs_out_is_said_once(bert: Path, texts: list[str], tmp_path: Path) -> None:
    knowledge = LoadedModels({}, tmp_path)
    model: Any = knowledge.context_model(f"hf:{bert}", {"device": "cpu"})
    hits = find_words(texts, TARGETS)
    whole = model.likeliest(texts, hits, 5)
    assert not knowledge.notices

    def full(_: Any, args: Any, kwargs: Any) -> None:
        if kwargs["input_ids"].numel() > 128:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.network.register_forward_pre_hook(full, with_kwargs=True)
    assert model.likeliest(texts, hits, 5).tolist() == whole.tolist()
    (notice,) = knowledge.notices
    assert notice.startswith(f"hf:{bert}: the memory of cpu ran out")


def test_no_hits_give_no_words(bert: Path) -> None:
    none = Hits(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    assert load_masked(bert).likeliest(["fever"], none, 5).shape == (0, 5)


def test_batches_do_not_change_the_answer(bert: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hits = find_words(texts, [*TARGETS, "patient", "history"])
    at_once = load_masked(bert).likeliest(texts, hits, 5)
    monkeypatch.setattr("palpate.models.text.masked.tokens_fitting", lambda *_: 1)
    monkeypatch.setattr("palpate.models.text.masked._NOTES_AT_ONCE", 1)
    assert load_masked(bert).likeliest(texts, hits, 5).tolist() == at_once.tolist()


def test_nothing_is_asked_of_the_network(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert set(load_masked(bert).words) <= {*WORDS, *PIECES, *LETTERS}


def test_wrong_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="checkpoint folder not found"):
        load_masked(tmp_path / "absent")
    with pytest.raises(ConfigError, match=r"no config\.json"):
        load_masked(tmp_path)
    classifier = checkpoint(tmp_path / "classifier")
    with pytest.raises(ConfigError, match=r"lacks \d+ weights of a masked language model"):
        load_masked(classifier)
    pickled = checkpoint(tmp_path / "pickled", task="MaskedLM")
    next(pickled.glob("*.safetensors")).unlink()
    with pytest.raises(ConfigError, match="safetensors"):
        load_masked(pickled)
    no_mask = checkpoint(tmp_path / "no-mask", task="MaskedLM", tokenizer=wordpiece())
    tokenizer = transformers.AutoTokenizer.from_pretrained(no_mask)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(no_mask)
    with pytest.raises(ConfigError, match="no mask token"):
        load_masked(no_mask)
    with pytest.raises(ConfigError, match="leaves no room"):
        load_masked(checkpoint(tmp_path / "short", task="MaskedLM"), max_tokens=2)


def test_without_torch_the_extra_is_named(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        load_masked(bert)
