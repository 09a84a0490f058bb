"""Language models as classifiers, against a real server that speaks the chat protocol."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.cases.hashing import case_key, key_of
from palpate.errors import ConfigError, LimitReached, ModelError
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.chat import ChatModel
from palpate.results.plan import AnswerKind
from palpate.run.execute.ledger import AnswerLedger
from tests.models.adapters.chat.chat_server import ChatServer, Reply, error, newer_rules, serving

NOTE = "Mr Smith, MRN 48151623, has sepsis"


def load(server: ChatServer, folder: Path = Path(), **options: Any) -> ChatModel:
    settings = {"api": "chat", "model": "m", "prompt": "{text} Risk?", "backoff": 0.01, "timeout": 5, **options}
    model = load_model(ModelSpec("llm", server.url, folder=str(folder), options=settings))
    assert isinstance(model, ChatModel)
    return model


def asked(*texts: str) -> Inputs:
    return Inputs.from_texts(texts or [NOTE], [f"case-{i}" for i in range(len(texts) or 1)])


def ask(server: ChatServer, *texts: str, **options: Any) -> list[list[float]]:
    answer = load(server, **options).predict(asked(*texts))
    assert answer.dtype == np.float64
    return answer.tolist()


def echo(question: str, message: Mapping[str, Any]) -> str:
    """The server answers with what stands before the question, so that a test says its answers."""
    return question.removesuffix(" Risk?")


def test_only_what_is_set_is_sent() -> None:
    with serving() as server:
        assert ask(server) == [[1.0]]
        (bare,) = server.messages
        assert bare == {"model": "m", "messages": [{"role": "user", "content": f"{NOTE} Risk?"}]}
        ask(
            server,
            temperature=0.2,
            max_completion_tokens=5,
            seed=3,
            system="Be brief.",
            extra_body={"keep_alive": "10m", "reasoning_effort": "low"},
        )
    assert server.messages[1] == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{NOTE} Risk?"}],
        "temperature": 0.2,
        "max_completion_tokens": 5,
        "seed": 3,
        "keep_alive": "10m",
        "reasoning_effort": "low",
    }


def test_newer_rules_are_met_by_default_and_explained_otherwise() -> None:
    with serving(lambda question, message: newer_rules(message) or "No") as server:
        assert ask(server) == [[0.0]]
        with pytest.raises(ModelError, match=r"Unsupported parameter.*set `max_completion_tokens`") as caught:
            ask(server, max_tokens=5)
        assert NOTE not in str(caught.value)
        with pytest.raises(ModelError, match=r"leave `temperature` out"):
            ask(server, temperature=0)
        assert ask(server, max_completion_tokens=5) == [[0.0]]


def test_one_question_per_label() -> None:
    with serving(lambda question, message: "yes" if question.startswith("sepsis?") else "no") as server:
        options = {"labels": ["death", "sepsis"], "prompt": "{label}? {text}"}
        assert ask(server, NOTE, "{label}", **options) == [[0.0, 1.0], [0.0, 1.0]]
        assert set(server.questions) >= {"death? {label}", f"sepsis? {NOTE}"}
        assert load(server, **options).predict(Inputs.from_texts([])).shape == (0, 2)


def test_a_base_url_is_enough_and_a_wrong_one_is_explained() -> None:
    with serving() as server:
        spec = {"api": "chat", "model": "m", "prompt": "{text}"}
        for url in (*(server.url + end for end in ("", "/", "/chat/completions")), server.url.removesuffix("/v1")):
            assert load_model(ModelSpec("llm", url, options=spec)).predict(asked()).tolist() == [[1.0]]
        with pytest.raises(ModelError, match=r"status 404.*must end in /v1"):
            load_model(ModelSpec("llm", server.url + "/completions", options=spec)).predict(asked())


# --- outcomes -----------------------------------------------------------------------------------------------

SILENT = {
    "refusal field": (Reply(None, refusal="I can't help with that."), AnswerKind.REFUSED),
    "content filter": (Reply("", finish="content_filter"), AnswerKind.REFUSED),
    "filter of the prompt": (error(400, "The prompt triggered the filter", "content_filter"), AnswerKind.REFUSED),
    "in words": (Reply("I'm sorry, but I can't provide medical advice."), AnswerKind.REFUSED),
    "as an AI": (Reply("As an AI language model, I do not diagnose."), AnswerKind.REFUSED),
    "in German": (Reply("Es tut mir leid, ich kann dazu keine Auskunft geben."), AnswerKind.REFUSED),
    "in French": (Reply("Je ne peux pas donner de conseils."), AnswerKind.REFUSED),
    "refuses": (Reply("I refuse to say yes."), AnswerKind.REFUSED),
    "unclear": (Reply("Yes and no"), AnswerKind.UNREADABLE),
    "denied": (Reply("I cannot say yes."), AnswerKind.UNREADABLE),
    "empty": (Reply(""), AnswerKind.UNREADABLE),
    "null": (Reply(None, finish="length"), AnswerKind.UNREADABLE),
    "no choices": (Reply(body=b'{"choices": []}'), AnswerKind.UNREADABLE),
    "another shape": (Reply(body=b'{"choices": [{"text": "Yes"}]}'), AnswerKind.UNREADABLE),
    "too long": (error(400, "This model's maximum context length is 10 tokens", "context_length_exceeded"), 4),
}


@pytest.mark.parametrize("name", SILENT)
def test_silence_is_an_outcome_under_every_policy(name: str, tmp_path: Path) -> None:
    reply, outcome = SILENT[name]
    with serving(lambda question, message: reply if "odd" in question else "Yes") as server:
        for policy, value in (("missing", math.nan), ("negative", 0.0)):
            model = load(server, refusal=policy)
            assert model.may_miss == (policy == "missing")
            ledger = AnswerLedger(tmp_path / policy, model="m", run="r")
            model.use(ledger)
            np.testing.assert_array_equal(model.predict(asked("odd", "even")), [[value], [1.0]])
            keys = [case_key("", f"case-{k}", key_of(text)) for k, text in enumerate(("odd", "even", "never"))]
            assert model.outcomes(keys).kind.tolist() == [[outcome], [AnswerKind.ANSWERED], [-1]]
            ledger.close()
        with pytest.raises(ModelError, match="case-0") as caught:
            ask(server, "odd", refusal="error")
        assert "Smith" not in str(caught.value)


def test_refusals_and_unreadable_answers_can_have_policies_of_their_own() -> None:
    with serving(echo) as server:
        texts = ["I cannot help with that.", "maybe", "yes"]
        found = ask(server, *texts, refusal="negative", unreadable="missing")
        np.testing.assert_array_equal(found, [[0.0], [math.nan], [1.0]])
        with pytest.raises(ModelError, match=r"case-1.*neither yes nor no"):
            ask(server, *texts, refusal="missing", unreadable="error")


def test_nothing_but_silence_ends_the_run() -> None:
    with serving(lambda question, message: "Perhaps") as server:
        with pytest.raises(ModelError, match=r"none of the first 100 answers says anything.*neither yes nor no"):
            ask(server, *[f"{NOTE} {k}" for k in range(300)], concurrency=4)
        assert len(server.messages) < 110


def test_an_answer_is_quoted_only_for_debugging() -> None:
    with serving(lambda question, message: f"Hm: {question}") as server:
        with pytest.raises(ModelError) as caught:
            ask(server, unreadable="error")
        assert "Smith" not in str(caught.value)
        with pytest.raises(ModelError, match="Smith"):
            ask(server, unreadable="error", debug_answers=True)


# --- parsers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "parser", "wanted"),
    [
        ("0.85", "number", 0.85),
        ("The risk is 85%.", "number", 0.85),
        ("about 7.5 percent", "number", 0.075),
        ("0,25", "number", 0.25),
        (".5", "number", 0.5),
        ("1e-3", "number", 0.001),
        ("**85** %", "number", 0.85),
        ("<think>9 of 10</think> 0.2", "number", 0.2),
        ("I'd put it at 1 in 20.", "number", 0.05),
        ("7 out of 10", "number", 0.7),
        ("0.2 per cent", "number", 0.002),
        ("1 (certain)", "number", 1.0),
        ("0 because nothing points to it", "number", 0.0),
        ("1 prior admission, probability 0.2", "number", math.nan),
        ("Day 1: 0.3", "number", math.nan),
        ("1. Risk: 0.3", "number", math.nan),
        ("1:4", "number", math.nan),
        ("5 of 3", "number", math.nan),
        ("high", "number", math.nan),
        ("85", "number", math.nan),
        ("-0.2", "number", math.nan),
        ("120%", "number", math.nan),
        ("1/5", "number", math.nan),
        ("On a scale from 0 to 1: 0.7", "number", 0.7),
        ("Between 0% and 100%, I'd say 30%", "number", 0.3),
        ("0.1-0.2", "number", math.nan),
        ("10% to 20%", "number", math.nan),
        ("0.3. Please consult a physician.", "number", 0.3),
        ("\uff10\uff0e\uff18\uff15", "number", 0.85),
        ("\uff18\uff15\uff05", "number", 0.85),
        ("I would rather not give a number.", "number", math.nan),
        ('{"thought": "fever"}\n{"positive": 0.3}', "json", 0.3),
        ("I cannot provide a probability, but 0.2 of all patients return", "number", math.nan),
        ("Score 3. Risk: 0.4", r"Risk: (\S+)", 0.4),
        ("Score 3. Risk: 40%", r"Risk: (\S+)", 0.4),
        ("Final answer - YES", r"(?i)answer\W+(yes|no)", 1.0),
        ("Risk is high", r"Risk: (\S+)", math.nan),
        ("Risk", r"Risk(: \S+)?", math.nan),
        ('{"positive": 0.3}', "json", 0.3),
        ('```json\n{"positive": "40%"}\n```', "json", 0.4),
        ('Sure! {"Positive": true} Hope that helps {not json}', "json", 1.0),
        ('{"positive": "no"}', "json", 0.0),
        ('{"positive": 3}', "json", math.nan),
        ('{"positive": null}', "json", math.nan),
        ('{"negative": 0.3}', "json", math.nan),
        ("[0.3]", "json", math.nan),
        ('{"positive": 0.3', "json", math.nan),
        ("{" * 5000, "json", math.nan),
    ],
)
def test_parsers(answer: str, parser: str, wanted: float) -> None:
    with serving(echo) as server:
        np.testing.assert_allclose(ask(server, answer, parser=parser), [[wanted]], atol=1e-15)


@pytest.mark.parametrize(
    ("choices", "answer"), [(["Ja", "Nein"], "Ja."), ({"Ja": 1, "Nein": 0}, "ja"), ({True: 1, False: 0}, "Yes")]
)
def test_choices_in_other_languages(choices: Any, answer: str) -> None:
    with serving(echo) as server:
        assert ask(server, answer, "Nein, sicher nicht" if "Ja" in choices else "No", choices=choices) == [[1.0], [0.0]]


def test_graded_choices() -> None:
    with serving(echo) as server:
        assert ask(server, "Low", "the answer is high", choices={"low": 0.1, "high": 0.9}) == [[0.1], [0.9]]


def test_logprobs_are_summed_over_spellings_and_the_mass_is_reported() -> None:
    tokens = {"Yes": 0.4, " yes": 0.1, "YES": 0.05, "No": 0.2, " no": 0.05, "Maybe": 0.15}
    with serving(lambda question, message: Reply("Yes", tokens=tokens)) as server:
        model = load(server, parser="logprobs")
        assert model.predict(asked())[0] == pytest.approx([0.55 / 0.80])
        sent = server.messages[0]
        assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20)
        assert "max_tokens" not in sent
        assert not model.draws
        np.testing.assert_array_equal(ask(server, parser="logprobs", floor=0.81), [[math.nan]])
        assert ask(server, parser="logprobs", floor=0.79)[0] == pytest.approx([0.55 / 0.80])


def test_logprobs_of_choices_of_several_tokens() -> None:
    with serving(lambda question, message: Reply("Ne", tokens={"Ne": 0.6, "Ja": 0.3, "N": 0.05})) as server:
        found = ask(server, parser="logprobs", choices=["Ja", "Nein"])
    assert found[0] == pytest.approx([0.3 / 0.9])


@pytest.mark.parametrize(
    "content", [[], [{}], [{"token": "x", "top_logprobs": []}], [{"token": "x", "logprob": -1}], 3]
)
def test_logprobs_that_say_nothing(content: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": "Yes"}, "logprobs": {"content": content}}]}).encode()
    with serving(lambda question, message: Reply(body=body)) as server:
        if content == 3:
            with pytest.raises(ModelError, match="no log-probabilities"):
                ask(server, parser="logprobs")
        else:
            np.testing.assert_array_equal(ask(server, parser="logprobs"), [[math.nan]])


def test_absent_logprobs_are_explained() -> None:
    with serving() as server, pytest.raises(ModelError, match=r"no log-probabilities.*yes-no.*samples"):
        ask(server, parser="logprobs")


# --- JSON, examples, samples ----------------------------------------------------------------------------------


def test_json_asks_once_for_all_labels() -> None:
    answer = '{"death": 0.2, "sepsis": "yes", "reason": "fever"}'
    options: dict[str, Any] = {"labels": ["death", "sepsis"], "parser": "json"}
    with serving(lambda question, message: answer) as server:
        assert ask(server, NOTE, **options) == [[0.2, 1.0]]
        (message,) = server.messages
        schema = message["response_format"]["json_schema"]["schema"]
        assert schema["required"] == ["death", "sepsis"]
        for where in ("guided_json", "structured_outputs", "none"):
            ask(server, NOTE, send_schema=where, **options)
    assert server.messages[1]["guided_json"] == schema
    assert server.messages[2]["structured_outputs"] == {"json": schema}
    assert set(server.messages[3]) == {"model", "messages"}


def test_json_that_lacks_a_label_is_missing_for_that_label() -> None:
    with serving(lambda question, message: '{"death": 0.2}') as server:
        found = ask(server, NOTE, labels=["death", "sepsis"], parser="json")
    np.testing.assert_array_equal(found, [[0.2, math.nan]])


def test_examples_come_before_each_question(tmp_path: Path) -> None:
    (tmp_path / "shots.csv").write_text("\ufefftext;answer\nfever;Yes\n\nwell;No\n", encoding="utf-8")
    with serving() as server:
        load(server, tmp_path, examples="shots.csv", system="S").predict(asked("a"))
    roles = [(each["role"], each["content"]) for each in server.messages[0]["messages"]]
    assert roles == [
        ("system", "S"),
        ("user", "fever Risk?"),
        ("assistant", "Yes"),
        ("user", "well Risk?"),
        ("assistant", "No"),
        ("user", "a Risk?"),
    ]


def test_samples_give_the_share_and_its_noise() -> None:
    answers = iter(["Yes", "No", "Yes", "I cannot help with that", "Yes"])
    with serving(lambda question, message: next(answers)) as server:
        model = load(server, samples=5, seed=7, concurrency=1)
        assert model.draws
        assert model.predict(asked()).tolist() == [[0.75]]
    assert [message["seed"] for message in server.messages] == [7, 8, 9, 10, 11]


@pytest.mark.parametrize(("policy", "wanted"), [("missing", math.nan), ("negative", 0.4)])
def test_samples_of_which_most_are_refused(policy: str, wanted: float) -> None:
    answers = iter(["Yes", "Yes", *["I cannot help with that."] * 3])
    with serving(lambda question, message: next(answers)) as server:
        np.testing.assert_array_equal(ask(server, samples=5, refusal=policy, concurrency=1), [[wanted]])


# --- the server fails ---------------------------------------------------------------------------------------


def test_busy_servers_are_left_alone_and_waits_are_no_failures() -> None:
    busy = [error(429, "Rate limit reached", retry_after_ms="30")] * 6
    with serving(first=busy) as server:
        assert ask(server, *["a"] * 4, retries=0, concurrency=2) == [[1.0]] * 4
        assert len(server.messages) == 10


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_obeyed(as_date: bool) -> None:
    value = formatdate(time.time() + 2, usegmt=True) if as_date else "0.6"
    with serving(first=[error(429, "Slow down", retry_after=value)]) as server:
        began = time.monotonic()
        assert ask(server, retries=0) == [[1.0]]
        assert time.monotonic() - began >= 0.6


def test_used_up_allowance_holds_back_the_next_request() -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "400ms"}
    with serving(first=[Reply("Yes", headers=headers)]) as server:
        began = time.monotonic()
        assert ask(server, "a", "b", concurrency=1) == [[1.0]] * 2
        assert time.monotonic() - began >= 0.4


def test_a_wait_beyond_the_longest_ends_the_run_at_once() -> None:
    with serving(first=[error(429, "Daily limit", retry_after="7200")]) as server:
        with pytest.raises(ModelError, match=r"left alone for 7,200 s.*--resume"):
            ask(server)
        assert len(server.messages) == 1


def test_an_empty_account_is_not_waited_for() -> None:
    with serving(first=[error(429, "You exceeded your current quota", "insufficient_quota")] * 9) as server:
        with pytest.raises(ModelError, match="exceeded your current quota"):
            ask(server)
        assert len(server.messages) == 1


def test_failures_are_repeated_and_told_without_the_note() -> None:
    with serving(first=[error(500, "CUDA out of memory")] * 2) as server:
        assert ask(server, retries=2) == [[1.0]]
    with serving(lambda question, message: error(500, f"failed on prompt: {question}")) as server:
        with pytest.raises(ModelError, match=r"status 500 \(tried 2 times\)") as caught:
            ask(server, retries=1)
        for word in ("Smith", "48151623", "sepsis"):
            assert word not in str(caught.value)


def test_hanging_and_garbage() -> None:
    with (
        serving(lambda question, message: Reply(seconds=20)) as server,
        pytest.raises(ModelError, match=r"within 0\.2 s"),
    ):
        ask(server, timeout=0.2, retries=0)
    for body, problem in [
        (b"<html>" + NOTE.encode(), "web page, not JSON.*login page"),
        (b'{"choices": [{"message": {"content": "Ye', "not JSON.*proxy cuts"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'data: {"choices": []}\n\n', "stream of events.*extra_body: {stream: false}"),
        (b"{}", "not a chat completion"),
        (b"[]", "not a chat completion"),
        (b'{"choices": []}', "not a chat completion"),
        (b'{"choices": [{"message": null}]}', "not a chat completion"),
        (b'{"choices": [{"message": {"content": 5}}]}', "not a chat completion"),
        (b'{"choices": "no"}', "not a chat completion"),
    ]:
        with serving(lambda question, message, body=body: Reply(body=body)) as server:
            with pytest.raises(ModelError, match=problem) as caught:
                ask(server)
            assert "Smith" not in str(caught.value)


def few(question: str, message: Mapping[str, Any]) -> Reply:
    """The third text gets what is no completion, or no log-probabilities."""
    if "text 3" in question:
        return Reply(body=b'{"choices": []}') if "odd" in question else Reply("Yes")
    return Reply("Yes", tokens={"Yes": 0.8, "No": 0.2})


def test_one_answer_of_many_with_the_wrong_shape_is_an_outcome() -> None:
    for kind, parser, wanted in (("odd", "yes-no", 1.0), ("odd", "logprobs", 0.8), ("plain", "logprobs", 0.8)):
        with serving(few) as server:
            model = load(server, parser=parser, concurrency=1)
            texts = [f"{kind} text {k}" for k in (3, 1, 2, 3, 4)]
            found = model.predict(asked(*texts))
            np.testing.assert_allclose(found[:, 0], [math.nan, wanted, wanted, math.nan, wanted], atol=1e-12)
            assert (model.spent().requests, model.spent().answers) == (5, 5)
            np.testing.assert_allclose(model.predict(asked(f"{kind} text 3")), [[math.nan]])


def test_a_refusal_does_not_show_that_there_are_log_probabilities() -> None:
    def reply(question: str, message: Mapping[str, Any]) -> Reply:
        return Reply(None, refusal="No.") if "text 0" in question else Reply("Yes")

    with serving(reply) as server, pytest.raises(ModelError, match=r"no log-probabilities.*samples"):
        ask(server, *(f"text {k}" for k in range(5)), parser="logprobs", concurrency=1)


def test_a_server_that_never_speaks_the_protocol_is_asked_twenty_times_at_most() -> None:
    with serving(lambda question, message: Reply(body=b'{"result": "ok"}')) as server:
        with pytest.raises(ModelError, match=r"not a chat completion.*URL must be that of /v1/chat/completions"):
            load(server, concurrency=1).predict(asked(*(f"text {k}" for k in range(100))))
        assert len(server.messages) == 20


PAGE = Reply(body=b"<!doctype html><title>Sign in</title>")


def test_a_web_page_in_place_of_an_answer_is_asked_again() -> None:
    hidden = Reply(body=b'{"error": {"message": "Provider overloaded", "code": 503}}')
    with serving(first=[PAGE, hidden]) as server:
        assert ask(server, retries=2) == [[1.0]]
        assert len(server.messages) == 3
    with serving(lambda question, message: PAGE) as server:
        with pytest.raises(ModelError, match=r"web page, not JSON \(tried 3 times\).*--resume") as caught:
            ask(server, retries=2)
        assert "Sign" not in str(caught.value)
        assert len(server.messages) == 3
    with serving(lambda question, message: hidden) as server, pytest.raises(ModelError, match="status 503"):
        ask(server, retries=0)


def completion(message: Any, finish: str = "stop") -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": {}}).encode()


AS_SERVERS_SEND = {
    "parts": (completion({"content": [{"type": "text", "text": "Yes"}]}), "yes-no", 1.0, ""),
    "parts that are strings": (completion({"content": ["No", "."]}), "yes-no", 0.0, ""),
    "thoughts as a part": (
        completion({"content": [{"type": "reasoning", "text": "Yes?"}, {"type": "text", "text": "No"}]}),
        *("yes-no", 0.0, ""),
    ),
    "refusal as a part": (
        completion({"content": [{"type": "refusal", "refusal": "x"}]}),
        "yes-no",
        math.nan,
        "refused to answer",
    ),
    "thoughts beside": (completion({"content": "No", "reasoning_content": "Yes, yes"}), "yes-no", 0.0, ""),
    "nothing but thoughts": (
        completion({"content": None, "reasoning_content": "Yes"}, "length"),
        *("yes-no", math.nan, "cut off by thinking.*max_completion_tokens"),
    ),
    "tool": (completion({"content": None, "tool_calls": [{"id": "x"}]}), "yes-no", math.nan, "calls a tool"),
    "no choice": (b'{"choices": [], "usage": {}}', "yes-no", math.nan, "answer is empty"),
    "no message": (completion(None, "SAFETY"), "yes-no", math.nan, "refused to answer"),
    "cut word": (completion({"content": "The pat"}, "length"), "yes-no", math.nan, "cut off"),
    "cut number": (completion({"content": "0."}, "length"), "number", math.nan, "cut off"),
    "whole": (completion({"content": "Yes, the patient is"}, "length"), "yes-no", 1.0, ""),
    "full width": (completion({"content": "\uff39\uff25\uff33\u3002"}), "yes-no", 1.0, ""),
    "no logprobs, no choice": (b'{"choices": [], "usage": {}}', "logprobs", math.nan, "no top_logprobs"),
}


@pytest.mark.parametrize("name", AS_SERVERS_SEND)
def test_completions_as_servers_send_them(name: str) -> None:
    body, parser, wanted, why = AS_SERVERS_SEND[name]
    with serving(lambda question, message: Reply(body=body)) as server:
        np.testing.assert_array_equal(ask(server, parser=parser), [[wanted]])
        if why:
            with pytest.raises(ModelError, match=why):
                ask(server, parser=parser, refusal="error")


@pytest.mark.parametrize(("value", "problem"), [("", "is empty"), ("\n", "is empty"), (None, "is not set")])
def test_a_key_that_is_not_there_is_found_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, value: str | None, problem: str
) -> None:
    monkeypatch.delenv("LLM_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("LLM_KEY", value)
    with serving() as server:
        with pytest.raises(ConfigError, match=f"LLM_KEY, which {problem}"):
            ask(server, headers={"Authorization": "Bearer ${LLM_KEY}"})
        assert not server.messages


def test_nothing_of_a_note_is_in_an_error_of_a_label_that_it_names() -> None:
    with serving(lambda question, message: error(400, "bad value: positive")) as server:
        with pytest.raises(ModelError) as caught:
            ask(server, "blood culture positive")
        assert "positive" not in str(caught.value)


def test_keys_are_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", "sk-proj-AbCdEf123456")
    with serving(lambda question, message: error(401, "Incorrect key: sk-proj-AbCdEf123456")) as server:
        with pytest.raises(ModelError, match=r"status 401.*headers") as caught:
            ask(server, headers={"Authorization": "Bearer ${LLM_KEY}"})
        assert "AbCdEf" not in str(caught.value)


# --- limits -------------------------------------------------------------------------------------------------


def test_requests_are_a_hard_stop() -> None:
    with serving() as server:
        model = load(server, max_requests=7, concurrency=3)
        with pytest.raises(LimitReached, match=r"max_requests: 7 is reached \(7 requests\).*--resume"):
            model.predict(asked(*map(str, range(20))))
        assert len(server.messages) == 7
        assert model.spent().requests == model.spent().answers == 7


@pytest.mark.parametrize("cut", [0, 20])
def test_requests_that_the_server_drops_are_counted(cut: int) -> None:
    """It may have charged them: on a connection that was used before, too, none is sent without being counted."""
    dropped = set[str]()

    def reply(question: str, message: Mapping[str, Any]) -> Reply:
        odd = "odd" in question and question not in dropped
        dropped.update([question] if odd else [])
        return Reply("Yes", cut=cut if odd else None)

    texts = [f"{'odd' if k % 3 == 2 else 'even'} {k}" for k in range(9)]
    with serving(reply) as server:
        model = load(server, concurrency=1, retries=1)
        assert model.predict(asked(*texts)).tolist() == [[1.0]] * 9
        assert model.spent().requests == len(server.messages) == 12
        dropped.clear()
        limited = load(server, concurrency=1, retries=1, max_requests=5)
        with pytest.raises(LimitReached, match="max_requests: 5"):
            limited.predict(asked(*texts))
        assert limited.spent().requests == len(server.messages) - 12 == 5


def test_cost_is_a_hard_stop_and_counted() -> None:
    with serving(lambda question, message: Reply("Yes", usage=(1000, 500))) as server:
        model = load(server, price={"input": 1.0, "output": 4.0}, max_cost=0.0301, max_tokens=500, concurrency=3)
        with pytest.raises(LimitReached, match=r"max_cost: 0.0301 is reached \(10 requests, 0.03 spent\)"):
            model.predict(asked(*map(str, range(20))))
        spent = model.spent()
        assert (spent.requests, spent.input_tokens, spent.output_tokens) == (10, 10_000, 5_000)
        assert model.cost(spent) == pytest.approx(10_000 / 1e6 + 4 * 5_000 / 1e6)


def test_tokens_that_the_endpoint_does_not_count_are_guessed() -> None:
    with serving(lambda question, message: Reply("Yes, he will.", usage=None)) as server:
        model = load(server)
        model.predict(asked("x" * 94))
        assert tuple(model.spent()) == (1, 1, 25, 4, 1)


def test_forecast_follows_what_was_measured() -> None:
    with serving(lambda question, message: Reply("Yes", usage=(50, 3))) as server:
        model = load(server, prompt="{text}", price={"input": 2, "output": 10}, samples=2, max_cost=0.5)
        model.predict(asked("x" * 100))
        ahead = model.forecast(1000, 200_000)
        assert (ahead.requests, ahead.input_tokens, ahead.output_tokens) == (2000, 200_000, 6000)
        assert ahead.cost == pytest.approx(0.4 + 0.06)
        assert ahead.stops is None
        assert load(server, max_requests=10).forecast(11, 100).stops == "max_requests: 10"


# --- options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"prompt": "Risk?"}, "no {text}"),
        ({"labels": ["a", "b"]}, "no {label}"),
        ({"labels": ["a", "b"], "parser": "json", "prompt": "{label} {text}"}, "all labels"),
        ({"parser": "yesno"}, "'parser'.*'yesno'"),
        ({"parser": "("}, "'parser'"),
        ({"promt": "x"}, "'promt'"),
        ({"max_tokens": "many"}, "'max_tokens'.*whole number"),
        ({"max_tokens": 3, "max_completion_tokens": 3}, "not both"),
        ({"temperature": -1}, "'temperature'"),
        ({"samples": 3, "temperature": 0}, "same answer"),
        ({"samples": 3, "parser": "logprobs"}, "same each time"),
        ({"samples": 0}, "'samples'"),
        ({"refusal": "skip"}, "'refusal'"),
        ({"choices": ["Ja"]}, "'choices'.*positive and the negative"),
        ({"choices": ["Ja", "ja"]}, "'choices'.*same word"),
        ({"choices": ["", "?"]}, "'choices'.*letter"),
        ({"choices": {"Ja": 2, "Nein": 0}}, "'choices"),
        ({"max_cost": 5}, "`max_cost` needs `price"),
        ({"price": {"input": 1}}, "'price.output'"),
        ({"price": 3}, "'price'"),
        ({"extra_body": {"temperature": 0}}, "option of its own"),
        ({"extra_body": {"stream": True}}, "streaming"),
        ({"extra_body": {"n": 4}}, "`samples`"),
        ({"answer_schema": {"properties": {}}}, "`parser: json`"),
        ({"parser": "json", "answer_schema": {"type": "object"}}, "no `properties`"),
        ({"parser": "json", "answer_schema": {"properties": {"risk": {}}}}, "no property for label 'positive'.*risk"),
        ({"parser": "json", "answer_schema": "no-such.json"}, "no-such.json"),
        ({"examples": "no-such.csv"}, "no-such.csv"),
        ({"floor": 1.5}, "'floor'"),
    ],
)
def test_wrong_options(options: dict[str, Any], problem: str) -> None:
    with serving() as server:
        with pytest.raises(ConfigError, match=problem):
            load(server, **options)
        assert not server.messages


def test_other_machines_are_refused() -> None:
    options = {"api": "chat", "model": "m", "prompt": "{text}"}
    with pytest.raises(ConfigError, match=r"api.example.org is not this machine"):
        load_model(ModelSpec("llm", "http://api.example.org/v1", options=options))


def test_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,answer\nx,Yes\n")
    (tmp_path / "b.csv").write_text("text,answer\nx,No\n")
    with serving() as server:
        first = load(server).fingerprint
        same = {"timeout": 9, "concurrency": 1, "headers": {"X-Key": "a"}, "max_requests": 5, "debug_answers": True}
        assert load(server, **same, price={"input": 1, "output": 1}, max_cost=2).fingerprint == first
        changes: list[dict[str, Any]] = [{"model": "n"}, {"prompt": "{text}?"}, {"system": "s"}, {"parser": "number"}]
        changes += [{"seed": 1}, {"temperature": 0.5}, {"max_tokens": 3}, {"fingerprint": "v2"}, {"labels": ["sepsis"]}]
        changes += [{"samples": 2}, {"refusal": "negative"}, {"choices": ["Ja", "Nein"]}, {"extra_body": {"x": 1}}]
        changes += [{"examples": "a.csv"}, {"examples": "b.csv"}, {"floor": 0.1}]
        found = {first, *(load(server, tmp_path, **change).fingerprint for change in changes)}
    assert len(found) == len(changes) + 1


def test_requests_that_wait_for_their_turn_stay_within_concurrency_and_end_with_a_failure() -> None:
    """More requests are ready than may be in flight; none of them is sent once the run has failed."""
    with serving(lambda question, message: Reply("Yes", seconds=0.02)) as server:
        ask(server, *(f"text {k}" for k in range(40)), concurrency=3)
        assert (server.most_in_flight, len(server.messages)) == (3, 40)
    with serving(lambda question, message: error(400, "no")) as server:
        model = load(server, concurrency=3)
        with pytest.raises(ModelError):
            model.predict(asked(*(f"text {k}" for k in range(40))))
        model.close()
        assert len(server.messages) <= 3
