import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest

from hfxling.evaluation.results import (
    EvalResult,
    cpu_minutes,
    format_table,
    interval_told,
    p_told,
    package_versions,
    read_results,
    write_results,
)
from hfxling.files import content_hash

ROW = EvalResult(
    "P@1", 41.2, 454, "ntrex", "test", direction="zh->vi", low=36.8, high=45.7, seed=0, settings={"centering": "none"}
)


def test_rows_survive_the_file(tmp_path):
    rows = [ROW, EvalResult("AER", 0.25, 100, "hansards", "test", unit="", revision="0123456789abcdef")]
    path = tmp_path / "new" / "results.json"
    write_results(path, rows, recipe="siamese", settings={"learning_rate": 5e-6}, extra={"seconds": np.float32(2)})
    assert read_results(path) == rows
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["versions"] == package_versions()
    assert (content["recipe"], content["settings"], content["seconds"]) == ("siamese", {"learning_rate": 5e-6}, 2)


def test_numpy_numbers_become_plain_ones(tmp_path):
    row = replace(ROW, value=np.float32(0.5), n=np.int64(7), settings={"layer": np.int32(7)})
    write_results(tmp_path / "r.json", [row])
    assert read_results(tmp_path / "r.json") == [replace(ROW, value=0.5, n=7, settings={"layer": 7})]


@pytest.mark.parametrize("field", ["value", "low", "high"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), np.float32("nan")])
def test_a_number_that_is_none_is_refused_by_name_and_the_old_file_stays(tmp_path, field, number):
    path = tmp_path / "results.json"
    write_results(path, [ROW])
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"P@1 zh->vi on ntrex test: {field} is (nan|inf)"):
        write_results(path, [ROW, replace(ROW, **{field: number})])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [{"settings": {"loss": float("nan")}}, {"extra": {"model": object()}}])
def test_what_json_cannot_hold_is_refused_in_one_line(tmp_path, bad):
    with pytest.raises(ValueError, match="JSON cannot") as error:
        write_results(tmp_path / "r.json", [ROW], **bad)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def with_field(**change):
    return {"results": [{"metric": "P@1", "value": 1.0, "n": 3, "dataset": "d", "split": "test", **change}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a results file"),
        (b'{"results": [', "not a results file"),
        (b"\xff\xfe\x00", "not a results file"),
        (b"[" * 100_000, "not a results file"),
        (b'{"results": [' + b"9" * 5_000 + b"]}", "not a results file"),
        (b"[1, 2]", "no list 'results'"),
        (b'{"results": {}}', "no list 'results'"),
        (b'{"results": [3]}', r"results\[0\] is not an object"),
        (b'{"results": [{"metric": "P@1"}]}', "has no 'value'"),
        (with_field(accuracy=3), "unknown field 'accuracy'"),
        (with_field(value="41.2"), "must be finite numbers"),
        (with_field(value=float("nan")), "must be finite numbers"),
        (with_field(n=True), "must be finite numbers"),
        (with_field(low="3"), "must be finite numbers"),
        (with_field(dataset=None), "must be texts"),
        (with_field(settings=[]), "settings must be an object"),
    ],
)
def test_a_foreign_or_corrupt_file_is_named_in_one_line(tmp_path, content, message):
    path = tmp_path / "results.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match=message) as error:
        read_results(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such results file"):
        read_results(tmp_path / "none.json")


def test_content_hash_sees_text_order_columns_and_borders():
    base = content_hash(["ab", "c"], ["d"])
    others = [
        content_hash(["c", "ab"], ["d"]),
        content_hash(["a", "bc"], ["d"]),
        content_hash(["d"], ["ab", "c"]),
        content_hash(["ab", "c", "d"]),
        content_hash(["ab"], ["c", "d"]),
        content_hash(["ab", "C"], ["d"]),
    ]
    assert len({base, *others}) == len(others) + 1
    assert base == content_hash(iter(["ab", "c"]), ("d",))
    assert len(base) == 16
    assert int(base, 16) >= 0


def test_content_hash_refuses_a_bare_text():
    with pytest.raises(TypeError, match="columns of texts"):
        content_hash("text")


def test_package_versions_name_what_results_depend_on():
    versions = package_versions()
    assert {"python", "torch", "transformers", "sentence-transformers", "datasets", "tokenizers", "numpy"} <= set(
        versions
    )
    assert versions["numpy"] == np.__version__


def columns_on_screen(line):
    shown = [c for c in line if unicodedata.category(c) not in ("Mn", "Cf")]
    return [
        i for i, c in enumerate("".join(c * (1 + (unicodedata.east_asian_width(c) == "W")) for c in shown)) if c == "|"
    ]


def test_cpu_minutes_of_an_earlier_run_are_added_where_they_are_known(monkeypatch):
    monkeypatch.setattr("os.times", lambda: (100.0, 10.0, 9.0, 1.0, 1e9))
    assert cpu_minutes() == {"cpu_minutes": 2.0}
    assert cpu_minutes({"cpu_minutes": 0.25, "results": []}) == {"cpu_minutes": 2.25}
    assert cpu_minutes({"results": []}) == {}


def test_table_columns_stay_in_line_under_wide_and_combining_characters():
    table = format_table(["text", "n", "P@1"], [["中文句子", 3, 41.25], ["วันนี้ฝนตก", 1200, None], ["a", 5, 7.0]])
    lines = table.split("\n")
    assert len({tuple(columns_on_screen(line)) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == ["中文句子", "3", "41.25"]
    assert lines[1].count(":") == 2
    assert " 3 |" in lines[2]


def test_table_cells_cannot_break_the_table():
    assert "a\\|b c" in format_table(["x"], [["a|b\nc"]])


@pytest.mark.parametrize(
    ("p_value", "told"),
    [(0.0, "< 0.001"), (1e-300, "< 0.001"), (0.000999, "< 0.001"), (0.001, "= 0.001"), (1.0, "= 1.000")],
)
def test_no_p_value_is_zero(p_value, told):
    assert p_told(p_value) == told


@pytest.mark.parametrize(
    ("ends", "told"),
    [((0.24, 0.5), "0.2-0.5"), ((-2.4, -1.4), "-2.4 to -1.4"), ((-0.0381, 0.085, 3), "-0.038 to 0.085")],
)
def test_an_interval_has_no_two_hyphens(ends, told):
    assert interval_told(*ends) == told


def test_a_table_without_rows_is_its_header():
    assert format_table(["a", "long name"], []) == "| a   | long name |\n|-----|-----------|"


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        format_table(["a", "b"], [[1, 2], [3]])
