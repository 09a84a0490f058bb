"""Checkpoints shaped like PLM-ICD, with modeling code of their own in the folder: they cut notes into chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.models.tiny_checkpoints import checkpoint, wordpiece

CODE = """
import torch
from dataclasses import dataclass
from transformers import BertModel, BertPreTrainedModel
from transformers.utils import ModelOutput


@dataclass
class CoderOutput(ModelOutput):
    logits: torch.FloatTensor = None
    {field}: torch.FloatTensor = None


class {name}(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        size = config.hidden_size
        self.first_linear = torch.nn.Linear(size, size, bias=False)
        self.second_linear = torch.nn.Linear(size, config.num_labels, bias=False)
        self.third_linear = torch.nn.Linear(size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        chunk = {chunk}
        {cut}
        n, n_chunks, size = input_ids.shape
        hidden = self.bert(input_ids.reshape(-1, size), attention_mask=attention_mask.reshape(-1, size))[0]
        hidden = hidden.reshape(n, n_chunks * size, -1)
        scores = self.second_linear(torch.tanh(self.first_linear(hidden)))
        weights = torch.softmax(scores, dim=1).transpose(1, 2)
        logits = ((weights @ hidden) * self.third_linear.weight).sum(2) + self.third_linear.bias
        return {answer}
"""
CUTS = {
    "chunks": "assert input_ids.ndim == 3",
    "filled": "input_ids, attention_mask = (x.reshape(len(x), -1, chunk) for x in (input_ids, attention_mask))",
    "rows": """more = chunk - input_ids.shape[1] % chunk
        input_ids = torch.nn.functional.pad(input_ids, (0, more), value=0).reshape(len(input_ids), -1, chunk)
        attention_mask = torch.nn.functional.pad(attention_mask, (0, more)).reshape(len(input_ids), -1, chunk)""",
    "first chunk": """input_ids, attention_mask = input_ids[:, None, :chunk], attention_mask[:, None, :chunk]""",
}
ANSWERS = {
    "output": "CoderOutput(logits=logits, {field}=weights)",
    "tuple": "(logits, weights.transpose(1, 2))",
    "logits": "CoderOutput(logits=logits)",
}


def chunked_checkpoint(
    folder: Path,
    *,
    takes: str = "chunks",
    answers: str = "output",
    chunk: int = 16,
    labels: tuple[str, ...] = ("486", "428.0", "250.00"),
    auto: str = "AutoModelForSequenceClassification",
    name: str = "PlmIcdForCoding",
    seed: int = 0,
    tokenizer: Any = None,
    **config: Any,
) -> Path:
    """Write one: `takes` is the form of its input (`CUTS`), `answers` what it returns (`ANSWERS`)."""
    import torch
    from safetensors.torch import load_file, save_file

    given = tokenizer or wordpiece(32)
    problem = {"problem_type": "multi_label_classification"} | config
    checkpoint(folder, "Bert", n_outputs=len(labels), names=labels, tokenizer=given, seed=seed, **problem)
    weights = {key: value for key, value in load_file(folder / "model.safetensors").items() if "bert." in key}
    generator = torch.Generator().manual_seed(seed)
    size, n = 16, len(labels)
    for key, shape in {"first_linear": (size, size), "second_linear": (n, size), "third_linear": (n, size)}.items():
        weights[f"{key}.weight"] = torch.randn(shape, generator=generator)
    weights["third_linear.bias"] = torch.randn(n, generator=generator)
    kept = {key: value for key, value in weights.items() if "pooler" not in key}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    answer = ANSWERS[answers].format(field="label_attention")
    code = CODE.format(field="label_attention", name=name, chunk=chunk, cut=CUTS[takes], answer=answer)
    (folder / "modeling_coder.py").write_text(code)
    content = json.loads((folder / "config.json").read_text())
    content |= {"architectures": [name], "auto_map": {auto: f"modeling_coder.{name}"}}
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def direct(folder: Path, text: str, *, chunk: int = 16, extra_chunk: bool = False) -> tuple[Any, Any, list[Any]]:
    """Logits, attention [label, token] and the tokens' offsets of one text, computed from the weights by hand."""
    import torch
    import transformers
    from safetensors.torch import load_file

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    encoder = transformers.BertModel(config, add_pooling_layer=False).eval()
    encoder.load_state_dict({key[5:]: value for key, value in weights.items() if key.startswith("bert.")})
    read = tokenizer(text, truncation=False, return_offsets_mapping=True)
    ids = list(read["input_ids"])
    n_filled = (len(ids) // chunk + 1) * chunk if extra_chunk else -(-len(ids) // chunk) * chunk
    mask = [1] * len(ids) + [0] * (n_filled - len(ids))
    ids += [tokenizer.pad_token_id] * (n_filled - len(ids))
    hidden = []
    with torch.inference_mode():
        for first in range(0, n_filled, chunk):
            part = slice(first, first + chunk)
            hidden.append(encoder(torch.tensor([ids[part]]), attention_mask=torch.tensor([mask[part]]))[0][0])
        whole = torch.cat(hidden).double()
        matrix = {key: value.double() for key, value in weights.items() if "linear" in key}
        scores = torch.tanh(whole @ matrix["first_linear.weight"].T) @ matrix["second_linear.weight"].T
        attention = torch.softmax(scores, 0).T
        gathered = attention @ whole
        logits = (gathered * matrix["third_linear.weight"]).sum(1) + matrix["third_linear.bias"]
    return logits.numpy(), attention.numpy(), list(read["offset_mapping"])
