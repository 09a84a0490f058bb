"""Commands that look after the cache of scores: `cache size`, `cache check`, `cache prune`, `cache merge`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from palpate.cli.app import Debug, app, out
from palpate.errors import ConfigError

cache_app = typer.Typer(help="The cache of scores: its size, its soundness, and what may go.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

CacheFile = Annotated[
    Path | None, typer.Option("--file", help="The cache; default: PALPATE_CACHE, or the user's cache folder.")
]
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def _file(named: Path | None) -> Path:
    from palpate.run.execute.cache import default_path

    return named or default_path()


def _shown(n_bytes: int) -> str:
    unit = next((unit for unit in ("tb", "gb", "mb", "kb") if n_bytes >= _UNITS[unit]), "b")
    return f"{n_bytes / _UNITS[unit]:.3g} {unit.upper()}"


def _bytes(text: str) -> int:
    """`500MB` as a number."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?b?)", text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ConfigError(f"--to {text}: not a size", hint="write 500MB or 2GB")
    return int(float(found[1]) * _UNITS[found[2]])


@cache_app.command("size")
def size(file: CacheFile = None, debug: Debug = False) -> None:  # noqa: ARG001
    """Show how large the cache is, and what it holds of each model."""
    from palpate.run.cache_care import read_models

    path = _file(file)
    models = read_models(path)
    table = Table("model", "scores", "size", "last used", box=box.SIMPLE)
    for each in models:
        table.add_row(escape(each.fingerprint), f"{each.n_scores:,}", _shown(each.n_bytes), each.used or "before 0.2")
    out.print(table)
    out.print(
        f"{sum(each.n_scores for each in models):,} scores of {len(models)} models; "
        f"[bold]{escape(str(path))}[/bold] has {_shown(path.stat().st_size)}.",
        soft_wrap=True,
    )


@cache_app.command("check")
def check(file: CacheFile = None, debug: Debug = False) -> None:  # noqa: ARG001
    """Read the whole cache, and remove scores that are damaged: they are made again. Exits with 2 if the file is."""
    from palpate.run.cache_care import check_cache

    found = check_cache(_file(file))
    for problem in found.problems[:5]:
        out.print(escape(problem), soft_wrap=True)
    if found.problems:
        raise ConfigError("the file is damaged", file=_file(file), hint="move it away: what it held is scored again")
    out.print("The cache is sound." if not found.n_damaged else f"{found.n_damaged} damaged blocks were removed.")


@cache_app.command("prune")
def prune(
    file: CacheFile = None,
    model: Annotated[str | None, typer.Option(help="Remove the model whose fingerprint starts so.")] = None,
    unused: Annotated[
        int | None, typer.Option(min=0, max=36500, help="Remove models not used for so many days.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Remove the longest unused models, until keys and scores of the rest have 2GB.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Remove models from the cache; give at least one of --model, --unused and --to."""
    from palpate.run.cache_care import prune as remove
    from palpate.run.cache_care import read_models

    if model is None and unused is None and to is None:
        raise ConfigError("nothing to prune by", hint="give --model, --unused DAYS or --to SIZE")
    most = None if to is None else _bytes(to)
    for each in (gone := remove(_file(file), model=model, older_than=unused, most_bytes=most)):
        out.print(f"removed {escape(each.fingerprint)}: {each.n_scores:,} scores", soft_wrap=True)
    left = read_models(_file(file))
    out.print(
        f"{len(gone)} models were removed; {len(left)} are left, with {_shown(sum(each.n_bytes for each in left))} of "
        f"keys and scores, which is what --to counts; [bold]{escape(str(_file(file)))}[/bold] has "
        f"{_shown(_file(file).stat().st_size)}.",
        soft_wrap=True,
    )


@cache_app.command("merge")
def merge(
    other: Annotated[Path, typer.Argument(help="The cache to take scores from.", show_default=False)],
    file: CacheFile = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Add the scores of another cache; what is known already stays as it is."""
    from palpate.run.cache_care import merge as add

    out.print(f"{add(_file(file), other):,} scores were added.")
