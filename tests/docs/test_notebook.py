"""The notebook, cell by cell in a kernel and an empty folder, as its readers run it."""

import json
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install -e '.[dev]'")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install -e '.[dev]'")
import nbformat  # noqa: E402

# What makes the run short: fewer sentences, and a round less.
SHORTER = {
    "everyday[110:] + made[140:388]": "everyday[110:230] + made[140:180]",
    "made[388:638], made[638:888]": "made[388:450], made[638:700]",
    "rounds=2": "rounds=1",
}
ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "from_250_pairs.ipynb"


def pictures(cells) -> int:
    """Pictures among the outputs."""
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))


def test_it_is_small_and_shows_its_pictures():
    assert NOTEBOOK.stat().st_size < 300_000
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    assert pictures(notebook.cells) == 3
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert [name for name in ("Traceback", "/work", "/home", "/tmp", "/root", "../shared") if name in text] == []


@pytest.mark.slow
def test_every_cell_runs(warm_python, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    kernel = {"argv": [warm_python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    kernel |= {"display_name": "warm", "language": "python"}
    (tmp_path / "kernels" / "warm").mkdir(parents=True)
    (tmp_path / "kernels" / "warm" / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, 4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    for long, short in SHORTER.items():
        (cell,) = [cell for cell in notebook.cells if long in cell.source]
        cell.source = cell.source.replace(long, short)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="warm", resources=place).execute()
    assert pictures(notebook.cells) == 3
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert re.search(r"\d+ pairs, \d+ % of them right", said)
    assert re.search(r"sparse, .*is written", said)
    model = tmp_path / "outputs" / "notebook" / "lo-zh" / "model"
    assert (model / "README.md").is_file()
