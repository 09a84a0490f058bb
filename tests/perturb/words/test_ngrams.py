"""The n-gram model against its formula in exact fractions, over the whole vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palpate.errors import InputError
from palpate.perturb.words import find_words
from palpate.perturb.words.ngrams import NgramModel
from palpate.perturb.words.tokens import normalise_word, tokens

EDGE, NUMBER, RARE = "<edge>", "<number>", "<rare>"


class Slow:
    """The formula, read off the page."""

    def __init__(self, texts: Sequence[str], min_texts: int) -> None:
        listed = [[normalise_word(token.text) for token in tokens(text)] for text in texts]
        n_texts = Counter(word for words in listed for word in set(words))
        count = Counter(word for words in listed for word in words)
        known = {word for word in count if word[0].isalpha() and "_" not in word and n_texts[word] >= min_texts}
        self.words = sorted(known, key=lambda word: (-count[word], word))
        lines = [self.read(words) for words in listed]
        self.n = sum(map(len, lines))
        self.count = Counter(word for line in lines for word in line)
        self.sides: list[dict[tuple[str, ...], Counter[str]]] = []
        for flip in (False, True):
            seen: dict[tuple[str, ...], Counter[str]] = {}
            for line in lines:
                padded = [EDGE, EDGE, *(reversed(line) if flip else line)]
                for k in range(2, len(padded)):
                    for history in (padded[k - 2 : k], padded[k - 1 : k]):
                        seen.setdefault(tuple(history), Counter())[padded[k]] += 1
            self.sides.append(seen)

    def read(self, words: Sequence[str]) -> list[str]:
        known = set(self.words)
        return [w if w in known else NUMBER if w.lstrip(".")[0].isdigit() else RARE for w in words]

    def p(self, side: int, word: str, history: tuple[str, ...]) -> Fraction:
        if not history:
            return Fraction(self.count[word], self.n)
        shorter = self.p(side, word, history[1:])
        seen = self.sides[side].get(history)
        return shorter if not seen else (seen[word] + len(seen) * shorter) / (seen.total() + len(seen))

    def likeliest(self, context: Sequence[str], n: int, exclude: Sequence[str]) -> list[str]:
        l2, l1, r1, r2 = context
        scores = {
            word: self.p(0, word, (l2, l1)) * self.p(1, word, (r2, r1)) / self.p(0, word, ()) for word in self.words
        }
        place = {word: k for k, word in enumerate(self.words)}
        return sorted(set(scores) - set(exclude), key=lambda word: (-scores[word], place[word]))[:n]


VOCABULARY = ["a", "b", "c", "d", "e", "f", "Gg", "98.6", ".5", "___", "h's"]
notes = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join), min_size=1, max_size=6)


@settings(max_examples=150)
@given(notes, st.integers(1, 2), st.integers(1, 4), st.lists(st.sampled_from("abcde"), max_size=3), st.data())
@example(["a b a b a"], 1, 3, [], None)
def test_the_likeliest_words_are_those_of_the_formula(
    texts: list[str], min_texts: int, n: int, exclude: list[str], data: st.DataObject | None
) -> None:
    slow = Slow(texts, min_texts)
    if not slow.words:
        with pytest.raises(InputError, match="nothing to propose"):
            NgramModel.fit(texts, min_texts=min_texts)
        return
    model = NgramModel.fit(texts, min_texts=min_texts)
    assert list(model.words) == slow.words
    names = [*slow.words, NUMBER, RARE, EDGE]
    one = st.lists(st.integers(0, len(names) - 1), min_size=4, max_size=4)
    contexts = [[0, 0, 0, 0]] if data is None else data.draw(st.lists(one, min_size=1, max_size=8))
    barred = [np.asarray([k for k, word in enumerate(slow.words) if word in exclude], dtype=np.int64)]
    best = model.at(np.asarray(contexts, dtype=np.int64), n, exclude=barred)
    for row, context in enumerate(contexts):
        wanted = slow.likeliest([names[code] for code in context], n, exclude)
        assert [model.words[code] for code in best[row] if code >= 0] == wanted


def test_a_larger_corpus_with_long_lists() -> None:
    rng = np.random.default_rng(5)
    share = 1 / np.arange(1, 61)
    drawn = rng.choice(60, size=(40, 80), p=share / share.sum())
    texts = [" ".join(f"w{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in row) for row in drawn]
    model, slow = NgramModel.fit(texts, min_texts=5), Slow(texts, 5)
    names = [*slow.words, NUMBER, RARE, EDGE]
    contexts = rng.integers(0, len(names), size=(150, 4))
    group = rng.integers(0, 3, size=150)
    exclude = [np.arange(0), np.arange(3), np.asarray([7, 2])]
    best = model.at(contexts, 5, group=group, exclude=exclude)
    for row, context in enumerate(contexts):
        barred = [slow.words[code] for code in exclude[group[row]]]
        assert [model.words[code] for code in best[row]] == slow.likeliest([names[c] for c in context], 5, barred)


@given(notes, st.lists(st.sampled_from(["a", "b", "c d", "h"]), unique=True, min_size=1))
def test_contexts_are_the_two_words_at_each_side(texts: list[str], words: list[str]) -> None:
    model, slow = NgramModel.fit(["a b c d e", "a b c d e"], min_texts=2), Slow(["a b c d e"] * 2, 2)
    names = [*slow.words, NUMBER, RARE, EDGE]
    hits = find_words(texts, words)
    contexts = model.contexts(texts, hits)
    for row, (text, _, start, end) in enumerate(zip(*hits, strict=True)):
        listed = [(normalise_word(t.text), t.start, t.end) for t in tokens(texts[text])]
        left = [EDGE, EDGE, *slow.read([w for w, _, e in listed if e <= start])][-2:]
        right = [*slow.read([w for w, s, _ in listed if s >= end]), EDGE, EDGE][:2]
        assert [names[code] for code in contexts[row]] == [*left, *right]


def test_rare_words_are_not_kept() -> None:
    texts = ["mrs smithson has pain", "mr jones has pain", "mr brown has pain"]
    model = NgramModel.fit(texts, min_texts=2)
    assert model.words == ("has", "pain", "mr")
    best = model.likeliest(texts, find_words(texts, ["jones"]), 5)
    assert best.shape == (1, 5)
    assert sorted(code for code in best[0] if code >= 0) == [0, 1, 2]


def test_no_contexts_give_no_words() -> None:
    model = NgramModel.fit(["a b"] * 5)
    assert model.likeliest(["x"], find_words(["x"], ["a"]), 5).shape == (0, 5)
    assert model.at(np.zeros((1, 4), dtype=np.int64), 0).shape == (1, 0)
