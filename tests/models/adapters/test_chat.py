"""Language models as classifiers, against a real server that speaks the chat protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import Model, ModelSpec, load_model
from palpate.models.adapters.chat import _Unreadable, parsed, probability_of_yes
from tests.models.adapters.local_server import LocalServer

NOTE = "Mr Smith has sepsis"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    running = LocalServer()
    yield running
    running.close()


def says(answer: str | Callable[[str], str], logprobs: Any = None) -> Callable[[Any], Any]:
    def chat(message: Any) -> Any:
        question = message["messages"][-1]["content"]
        content = answer if isinstance(answer, str) else answer(question)
        return {"choices": [{"message": {"role": "assistant", "content": content}, "logprobs": logprobs}]}

    return chat


def load(server: LocalServer, **options: Any) -> Model:
    settings = {"api": "chat", "model": "m", "prompt": "{text} Risk?", "backoff": 0.01, "timeout": 5, **options}
    return load_model(ModelSpec("llm", server.url, options=settings))


def ask(server: LocalServer, *texts: str, **options: Any) -> list[list[float]]:
    asked = Inputs.from_texts(texts or [NOTE], [f"case-{i}" for i in range(len(texts) or 1)])
    answer = load(server, **options).predict(asked)
    assert answer.dtype == np.float64
    return answer.tolist()


def test_one_question_per_text(server: LocalServer) -> None:
    server.answer = says(lambda question: "Yes." if "sepsis" in question else "No.")
    texts = ["no fever", NOTE, "", "sepsis", "{label} {text}"]
    assert ask(server, *texts) == [[0.0], [1.0], [0.0], [1.0], [0.0]]
    assert {message["messages"][0]["content"] for message in server.messages} == {f"{t} Risk?" for t in texts}
    message = server.messages[0]
    assert (message["model"], message["temperature"], message["max_tokens"], message["seed"]) == ("m", 0.0, 16, 0)
    assert "logprobs" not in message


def test_one_question_per_label(server: LocalServer) -> None:
    server.answer = says(lambda question: "yes" if question.startswith("sepsis?") else "no")
    options = {"labels": ["death", "sepsis"], "prompt": "{label}? {text}", "system": "Be brief.", "seed": None}
    assert ask(server, NOTE, "{label}", **options) == [[0.0, 1.0], [0.0, 1.0]]
    assert all(message["messages"][0] == {"role": "system", "content": "Be brief."} for message in server.messages)
    assert {m["messages"][1]["content"] for m in server.messages} >= {"death? {label}", f"sepsis? {NOTE}"}
    assert "seed" not in server.messages[0]
    assert load(server, **options).predict(Inputs.from_texts([])).shape == (0, 2)


def test_requests_are_repeated_and_bounded(server: LocalServer) -> None:
    server.answer, server.failures, server.seconds = says("yes"), [429, 503], 0.05
    assert ask(server, *["a"] * 12, concurrency=3) == [[1.0]] * 12
    assert server.n_requests == 14
    assert server.most_in_flight == 3


@pytest.mark.parametrize(
    ("answer", "parser", "wanted"),
    [
        ("Yes", "yes-no", 1.0),
        ("**No**, the patient is stable.", "yes-no", 0.0),
        ("no - yes would be wrong", "yes-no", 0.0),
        ("The answer is YES.", "yes-no", 1.0),
        ("<think>no, or yes?</think>\nyes", "yes-no", 1.0),
        ("0.85", "number", 0.85),
        ("The risk is 85%.", "number", 0.85),
        ("about 7.5 percent", "number", 0.075),
        ("0,25", "number", 0.25),
        (".5", "number", 0.5),
        ("1e-3", "number", 0.001),
        ("**85** %", "number", 0.85),
        ("1", "number", 1.0),
        ("Score 3. Risk: 0.4", r"Risk: (\S+)", 0.4),
        ("Score 3. Risk: 40%", r"Risk: (\S+)", 0.4),
        ("Final answer - YES", r"(?i)answer\W+(yes|no)", 1.0),
    ],
)
def test_parsers(answer: str, parser: str, wanted: float) -> None:
    assert parsed(answer, parser) == pytest.approx(wanted, abs=1e-15)


@pytest.mark.parametrize(
    ("answer", "parser"),
    [
        ("", "yes-no"),
        ("Maybe", "yes-no"),
        ("nothing known", "yes-no"),
        ("I have no doubt: yes", "yes-no"),
        ("high", "number"),
        ("85", "number"),
        ("-0.2", "number"),
        ("120%", "number"),
        ("1/5", "number"),
        ("Risk is high", r"Risk: (\S+)"),
        ("Risk: high", r"Risk: (\S+)"),
        ("Risk", r"Risk(: \S+)?"),
    ],
)
def test_answers_that_cannot_be_read(answer: str, parser: str) -> None:
    with pytest.raises(_Unreadable):
        parsed(answer, parser)


def alternatives(**logprobs: float) -> list[Any]:
    return [{"top_logprobs": [{"token": token, "logprob": value} for token, value in logprobs.items()]}]


def test_logprobs(server: LocalServer) -> None:
    tokens = alternatives(Yes=math.log(0.5), yes=math.log(0.1), No=math.log(0.2), Maybe=math.log(0.2))
    tokens[0]["top_logprobs"][1]["token"] = " yes"
    server.answer = says("Yes", {"content": tokens})
    assert ask(server, parser="logprobs")[0] == pytest.approx([0.75])
    message = server.messages[0]
    assert (message["logprobs"], message["top_logprobs"], message["max_tokens"]) == (True, 20, 1)


def test_logprobs_that_say_nothing() -> None:
    assert probability_of_yes(alternatives(yes=-0.1)) == 1.0
    for tokens in ([], [{}], None, alternatives(maybe=-0.1), alternatives(yes=float("nan")), alternatives(yes=1e9)):
        with pytest.raises(_Unreadable):
            probability_of_yes(tokens)


def test_unreadable_answer_names_the_case_and_quotes_nothing(server: LocalServer) -> None:
    server.answer = says(lambda question: "yes" if "first" in question else f"I can't say: {question}")
    with pytest.raises(ModelError, match="case-1") as caught:
        ask(server, "the first", NOTE)
    assert "Smith" not in str(caught.value)
    with pytest.raises(ModelError, match="Smith"):
        ask(server, NOTE, debug_answers=True)


@pytest.mark.parametrize("answer", [{}, [], {"choices": []}, {"choices": [{"message": None}]}, {"choices": "no"}])
def test_other_protocols_are_an_error(server: LocalServer, answer: Any) -> None:
    server.answer = lambda message: answer
    with pytest.raises(ModelError, match="not a chat completion"):
        ask(server)


def test_no_logprobs_is_an_error(server: LocalServer) -> None:
    server.answer = says("yes")
    with pytest.raises(ModelError, match="not a chat completion with logprobs"):
        ask(server, parser="logprobs")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"prompt": "Risk?"}, "no {text}"),
        ({"labels": ["a", "b"]}, "no {label}"),
        ({"parser": "yesno"}, "'parser'.*'yesno'"),
        ({"parser": "("}, "'parser'"),
        ({"model": None}, "'model'"),
        ({"promt": "x"}, "'promt'"),
    ],
)
def test_wrong_options(server: LocalServer, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(server, **options)
    assert server.n_requests == 0


def test_other_machines_are_refused() -> None:
    options = {"api": "chat", "model": "m", "prompt": "{text}"}
    with pytest.raises(ConfigError, match=r"api.example.org is not this machine"):
        load_model(ModelSpec("llm", "http://api.example.org/v1/chat/completions", options=options))


def test_fingerprint(server: LocalServer, tmp_path: Path) -> None:
    first = load(server).fingerprint
    assert load(server, timeout=9, concurrency=1, headers={"X-Key": "a"}).fingerprint == first
    changes = [{"model": "n"}, {"prompt": "{text}?"}, {"system": "s"}, {"parser": "number"}, {"seed": 1}]
    changes += [{"temperature": 0.5}, {"max_tokens": 3}, {"fingerprint": "v2"}, {"labels": ["sepsis"]}]
    assert len({first, *(load(server, **change).fingerprint for change in changes)}) == 10
