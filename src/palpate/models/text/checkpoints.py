"""transformers checkpoints in local folders: checked and loaded without downloads.

Weights are read from safetensors only, unless the caller trusts the checkpoint, which then may also run code of its
own. Weights that a checkpoint lacks are never made up silently: whoever loads one is told which are missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.models.devices import Device

_LOCAL = "nothing is downloaded: give the folder of a transformers checkpoint on this machine"


def check_checkpoint(path: Path, *, trust: bool) -> None:
    """That a folder is a checkpoint with weights that may be read."""
    if not path.is_dir():
        raise ConfigError("checkpoint folder not found", file=path, hint=_LOCAL)
    if not (path / "config.json").is_file():
        raise ConfigError("this folder has no config.json, so it is not a checkpoint", file=path, hint=_LOCAL)
    if trust or any(path.glob("*.safetensors")):
        return
    pickled = next(path.glob("*.bin"), None)
    if pickled is None:
        raise ConfigError("this checkpoint has no weights (*.safetensors)", file=path)
    raise ConfigError(
        "these weights are a pickle, which can run code when it is loaded",
        file=pickled,
        hint="save the checkpoint as safetensors, or set `trust` to true if it is your own",
    )


def check_own_code(path: Path, *, trust: bool) -> None:
    """Refuse a checkpoint that would run code of its own, unless it is trusted; the sentence names the files.

    A class that the library has itself is loaded from there, whatever code comes with the checkpoint.
    """
    import transformers

    content = json.loads((path / "config.json").read_bytes())
    own = [str(value) for value in (content.get("auto_map") or {}).values() if isinstance(value, str)]
    if not own:
        return
    elsewhere = next((value for value in own if "--" in value), None)
    if elsewhere is not None:
        where, _, code = elsewhere.partition("--")
        file = f"{code.partition('.')[0]}.py"
        hint = f"put its {file} into the folder and remove '{where}--' from auto_map in config.json"
        raise ConfigError(f"its code is not here but in {where}, and nothing is downloaded", file=path, hint=hint)
    classes = content.get("architectures") or [value.rpartition(".")[2] for value in own]
    known = content.get("model_type") in transformers.CONFIG_MAPPING
    if trust or (known and all(hasattr(transformers, name) for name in classes)):
        return
    files = sorted({f"{value.rpartition('.')[0].replace('.', '/')}.py" for value in own})
    raise ConfigError(
        f"this checkpoint runs code of its own: {', '.join(files)} (for {', '.join(classes)})",
        file=path,
        hint="read that code, then set `trust` to true to run it",
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's progress bars and warnings: what matters is checked here and raised."""
    import transformers

    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_config(path: Path, *, trust: bool) -> Any:
    """The checkpoint's configuration."""
    import transformers

    return _load_part(transformers.AutoConfig, "config.json", path, trust=trust)


def load_tokenizer(path: Path, *, trust: bool) -> Any:
    """The tokenizer in a folder; without its vocabulary file the library would make up an empty one."""
    import transformers

    tokenizer = _load_part(transformers.AutoTokenizer, "the tokenizer", path, trust=trust)
    names = set(getattr(tokenizer, "vocab_files_names", {}).values())
    if names and not any((path / name).is_file() for name in names):
        raise ConfigError(f"the tokenizer can't be loaded: no {' or '.join(sorted(names))} found", file=path)
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise ConfigError(
            "the tokenizer knows no words, only special tokens such as [UNK]",
            file=path,
            hint="it was saved without its vocabulary: make it again, and look at what it makes of a sentence",
        )
    return tokenizer


def _load_part(kind: Any, what: str, path: Path, *, trust: bool) -> Any:
    with quiet():
        try:
            return kind.from_pretrained(path, local_files_only=True, trust_remote_code=trust)
        except Exception as error:
            raise ConfigError(f"{what} can't be loaded: {_first_line(error)}", file=path) from error


def load_network(
    kind: Any, path: Path, *, trust: bool, device: Device | None = None, **more: Any
) -> tuple[Any, list[str]]:
    """The network on a device, and the names of the weights that the checkpoint lacks.

    `kind` is one of the library's `AutoModel...` classes; `more` goes to its `from_pretrained`.
    """
    with quiet():
        try:
            network, report = kind.from_pretrained(
                path,
                local_files_only=True,
                trust_remote_code=trust,
                use_safetensors=None if trust else True,
                output_loading_info=True,
                **more,
            )
        except Exception as error:
            raise ConfigError(f"the weights can't be loaded: {_first_line(error)}", file=path) from error
    missing = {str(key) for key in report["missing_keys"]}
    if not more.get("ignore_mismatched_sizes"):
        missing |= {str(key) for key in report["mismatched_keys"]}
    return (device or Device()).place(network), sorted(missing)


def lacks_weights(missing: list[str], of_what: str, path: Path, *, hint: str) -> ConfigError:
    """The error for a checkpoint without all its weights."""
    problem = f"the checkpoint lacks {len(missing)} weights of {of_what}, among them {missing[0]}"
    return ConfigError(problem, file=path, hint=hint)


def positions_of(network: Any) -> int | None:
    """How many tokens have a position; RoBERTa and its relatives count from behind the padding token."""
    positions = getattr(network.config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)
    return positions


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
