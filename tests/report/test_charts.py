from __future__ import annotations

import json
from typing import Any

import pytest
import vl_convert

from palpate.report.blocks import numbers_of
from palpate.report.chartdata import MAX_PANELS, heat_bin, heat_bins, prepare
from palpate.report.charts import draw, static_svg, to_spec
from palpate.results import Axis, Chart

from .sample import thirteen_labels, two_models

CHARTS = [
    block
    for sample in (two_models(), thirteen_labels())
    for result in sample.results
    for block in result.blocks
    if isinstance(block, Chart)
]


def chart(kind: Any, data: list[dict[str, Any]], **options: Any) -> Chart:
    axes = {"x": Axis(field="x", title="Value (units)"), "y": Axis(field="y", title="Group")}
    return Chart(title="T", kind=kind, description="D", data=tuple(data), **(axes | options))


def forest(n: int, models: int = 1, **options: Any) -> Chart:
    data = [
        {"y": f"group {i}", "m": f"model {k}", "x": 0.1 * k, "low": 0.1 * k - 0.1, "high": 0.1 * k + 0.1, "n": 50}
        for i in range(n)
        for k in range(models)
    ]
    return chart("forest", data, series="m", **options)


def compiled(spec: dict[str, Any]) -> str:
    return str(vl_convert.vegalite_to_svg(json.dumps(spec), allowed_base_urls=[]))


def drawn_rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return max(spec["datasets"].values(), key=len)


def test_the_samples_have_every_kind() -> None:
    assert {block.kind for block in CHARTS} == {"forest", "line", "bar", "scatter", "heatmap", "histogram"}


@pytest.mark.parametrize("block", CHARTS, ids=lambda block: f"{block.kind}-{block.title}")
def test_compiles_as_vega_lite_and_names_its_axes(block: Chart) -> None:
    svg = compiled(to_spec(block))
    assert svg.startswith("<svg")
    assert block.x.title.split(" (")[0].split()[0] in svg
    assert "NaN" not in svg


@pytest.mark.parametrize("kind", ["forest", "line", "bar", "scatter", "heatmap", "histogram"])
def test_compiles_without_rows(kind: str) -> None:
    assert compiled(to_spec(chart(kind, []))).startswith("<svg")


@pytest.mark.parametrize("kind", ["forest", "line", "bar", "scatter", "heatmap", "histogram"])
def test_field_names_with_dots_and_brackets_are_no_paths(kind: str) -> None:
    row = {"a.b": 1.0, "c[0]": 2.0, "value": 3.0, "start": 0.0, "end": 1.0, "count": 4, "it's": "s"}
    axes = {"x": Axis(field="a.b", title="X"), "y": Axis(field="c[0]", title="Y")}
    spec = to_spec(chart(kind, [row, row | {"a.b": 2.0}], series="it's", **axes))
    assert "a.b" not in json.dumps(spec)
    assert compiled(spec).startswith("<svg")


def test_null_and_nan_are_not_drawn_but_counted_and_listed_with_their_reason() -> None:
    data = [
        {"y": "a", "x": 0.5, "low": 0.4, "high": 0.6},
        {"y": "b", "x": None, "reason": "only one class"},
        {"y": "c", "x": float("nan")},
    ]
    block = chart("forest", data)
    prepared = prepare(block)
    assert [row["name"] for row in prepared.rows] == ["a"]
    assert prepared.categories == ("a", "b", "c"), "an empty group stays visible"
    assert any("2 rows without a value" in note for note in prepared.notes)
    assert numbers_of(block).rows[1][-1] == "only one class"


def test_forest_is_capped_and_says_so() -> None:
    prepared = prepare(forest(500, 3))
    assert len(prepared.categories) == 40
    assert "Showing the first 40 of 500 rows." in prepared.notes
    assert len(prepare(forest(500, 10)).categories) == 16, "with many models there is room for fewer rows"


def test_forest_marks_significance_and_keeps_it_out_where_nothing_was_tested() -> None:
    tested = chart("forest", [{"y": "a", "x": 1, "significant": True}, {"y": "b", "x": 1, "significant": False}])
    words = [key.text for key in draw(tested).legend]
    assert words == ["significant", "not significant"]
    assert [row["g"] for row in drawn_rows(to_spec(tested))] == [True, False]
    assert draw(chart("forest", [{"y": "a", "x": 1}])).legend == ()
    assert "datum.g" not in json.dumps(to_spec(chart("forest", [{"y": "a", "x": 1}])))


def test_what_was_not_tested_is_never_drawn_as_significant() -> None:
    rows = [{"y": "a", "x": 1, "significant": True}, {"y": "b", "x": 1, "significant": None}]
    drawing = chart("forest", rows)
    assert [key.text for key in draw(drawing).legend] == ["significant", "not significant, or not tested"]
    assert "datum.g !== true" in json.dumps(to_spec(drawing))


def test_a_panel_whose_series_are_not_drawn_is_left_out() -> None:
    rows = [{"f": f"panel {k // 6}", "m": f"group {k}", "x": x, "y": x} for k in range(18) for x in (0.1, 0.9)]
    prepared = prepare(chart("line", rows, series="m", facet="f"))
    assert prepared.panels == ("panel 0", "panel 1")
    assert "Showing the first 10 of 18 series." in prepared.notes


def test_long_names_are_wrapped_and_stay_distinct() -> None:
    start = "a very long name of a group that goes on and on beyond the margin "
    prepared = prepare(chart("forest", [{"y": start + end, "x": 1} for end in ("one", "two", "three")]))
    assert len(set(prepared.categories)) == 3
    assert max(len(line) for label in prepared.categories for line in label.split("\n")) <= 30
    assert prepared.rows[2]["name"].endswith("three"), "the tooltip has the whole name"


def test_a_long_word_is_broken_not_cut() -> None:
    name = "gastroesophageal_reflux_disease_without_esophagitis"
    (label,) = prepare(chart("forest", [{"y": name, "x": 1}])).categories
    assert label.replace("\n", "") == name


def test_no_interval_is_cut_off_at_a_fixed_end_of_its_axis() -> None:
    wide = Axis(field="x", title="AUROC", low=0.45, high=1.0)
    data = [
        {"y": "a", "f": name, "x": 0.6, "low": low, "high": high}
        for name, low, high in (("p", 0.3, 1.2), ("q", 0.5, 0.7))
    ]
    for facet in (None, "f"):
        for panel in draw(chart("forest", data, x=wide, facet=facet)).panels:
            scale = next(
                layer["encoding"]["x"]["scale"] for layer in panel.spec["layer"] if "scale" in layer["encoding"]["x"]
            )
            assert scale["domainMin"] < 0.3
            assert scale["domainMax"] > 1.2
    kept = draw(chart("forest", [{"y": "a", "x": 0.6, "low": 0.5, "high": 1.0}], x=wide)).panels[0].spec
    assert '"domainMax": 1.0, "domainMin": 0.45' in json.dumps(kept, sort_keys=True)
    touching = draw(chart("forest", [{"y": "a", "x": 0.6, "low": 0.45, "high": 0.7}], x=wide)).panels[0].spec
    assert '"domainMin": 0.44' in json.dumps(touching), "it would look cut off"


def test_n_is_said_once_if_equal_and_per_row_if_not() -> None:
    assert "n = 50 throughout." in prepare(forest(3)).notes
    differing = chart("forest", [{"y": "a", "x": 1, "n": 10}, {"y": "b", "x": 1, "n": 2000}])
    assert prepare(differing).categories == ("a (n 10)", "b (n 2,000)")


def test_a_model_keeps_its_colour_when_a_chart_lacks_the_others() -> None:
    only = chart("forest", [{"y": "a", "x": 1, "m": "xgb"}], series="m")
    assert draw(only, order=["bert", "xgb"]).legend[0].colour == "var(--c2)"
    assert draw(only).legend[0].colour == "var(--c1)"


def test_rows_that_are_their_series_are_not_dodged() -> None:
    same = chart("forest", [{"y": "a", "x": 1}, {"y": "b", "x": 2}], series="y")
    assert "yOffset" not in json.dumps(to_spec(same))
    assert "yOffset" in json.dumps(to_spec(forest(2, 2)))


def test_lines_are_thinned_but_keep_their_ends() -> None:
    data = [{"x": i / 99_999, "y": i / 99_999} for i in range(100_000)]
    prepared = prepare(chart("line", data))
    assert len(prepared.rows) == 300
    assert (prepared.rows[0]["x"], prepared.rows[-1]["x"]) == (0, 1)
    assert "Drawn with 300 of 100,000 points." in prepared.notes


def test_a_scatter_of_very_many_points_is_aggregated_without_losing_any() -> None:
    data = [{"x": (i * 37 % 1000) / 10, "y": (i * 61 % 997) / 10} for i in range(100_000)]
    prepared = prepare(chart("scatter", data))
    assert len(prepared.rows) <= 1_700
    assert sum(row["k"] for row in prepared.rows) == 100_000
    assert any("100,000 points" in note for note in prepared.notes)


def test_histogram_bins_are_merged_and_their_counts_summed() -> None:
    data = [{"start": i, "end": i + 1, "count": 2} for i in range(1000)]
    prepared = prepare(chart("histogram", data))
    assert len(prepared.rows) <= 120
    assert sum(row["y"] for row in prepared.rows) == 2000
    assert (prepared.rows[0]["x"], prepared.rows[-1]["x2"]) == (0, 1000)


def test_panels_share_their_axes_and_are_capped() -> None:
    data = [{"x": i, "y": i * i, "f": f"panel {i % 20}"} for i in range(200)]
    drawn = draw(chart("line", data, facet="f"))
    assert len(drawn.panels) == MAX_PANELS
    scales = {json.dumps(panel.spec["layer"][0]["encoding"]["x"]["scale"]) for panel in drawn.panels}
    assert len(scales) == 1
    assert compiled(to_spec(chart("line", data, facet="f"))).startswith("<svg")


def test_ten_models_have_ten_colours() -> None:
    assert len({key.colour for key in draw(forest(4, 10)).legend}) == 10
    assert any("first 10 of 12 series" in note for note in prepare(forest(4, 12)).notes)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.93, 0.95), (0.61, 0.66), (5.0, 5.0), (-3e-6, 7e-6)])
def test_heatmap_colours_cover_all_values(low: float, high: float) -> None:
    rows = [{"v": low}, {"v": high}]
    edges, diverging = heat_bins(rows, None, steps=7)
    assert edges[0] <= low + 1e-12
    assert edges[-1] >= high - 1e-12
    assert diverging == (low < 0 < high)
    assert 0 <= heat_bin(low, edges) <= heat_bin(high, edges) <= 6
    if diverging:
        assert heat_bin(0.0, edges) == 3


def test_static_svg_is_the_same_each_time_and_escaped() -> None:
    bad = "</script><script>alert(1)</script>"
    bounded = Axis(field="x", title=bad, low=0, high=1)
    data = [{"y": bad, "x": 0.2, "low": 0.1, "high": 2}]
    spec = to_spec(chart("forest", data, x=bounded))
    first = static_svg(spec, name="a")
    assert first == static_svg(spec, name="a")
    assert "clip-path" in first
    assert "<script" not in first


def test_marked_points_of_a_line_are_beside_it_with_their_names() -> None:
    data = [{"x": i / 10, "y": i / 10} for i in range(11)]
    spec = to_spec(chart("line", [*data, {"x": 0.35, "y": 0.9, "marked": True, "text": "vendor"}]))
    drawn = [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]]
    assert [len(rows) for rows in drawn] == [11, 11, 1, 1]
    assert drawn[-1][0]["name"] == "vendor"
    assert spec["layer"][-1]["mark"]["type"] == "text"


def test_names_of_marked_points_do_not_cover_each_other() -> None:
    shares = {"low": 0.0, "high": 1.0}
    axes = {"x": Axis(field="x", title="Flagged", **shares), "y": Axis(field="y", title="Found", **shares)}
    near = [{"x": 0.5, "y": 0.5 + 0.001 * k, "m": "a", "marked": True, "text": f"point {k}"} for k in range(6)]
    far = [{"x": 0.1, "y": 0.9, "m": "a", "marked": True, "text": "vendor"}]
    line = [{"x": 0.0, "y": 0.0, "m": "a"}, {"x": 1.0, "y": 1.0, "m": "a"}]
    svg = static_svg(to_spec(chart("line", [*line, *near, *far], series="m", **axes)), name="c")
    shown = [name for name in ("vendor", *(f"point {k}" for k in range(6))) if f">{name}</text>" in svg]
    assert shown == ["vendor", "point 0", "point 1", "point 2", "point 3"]
