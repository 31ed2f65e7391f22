"""A model's folder written over an earlier one."""

import json

import numpy as np

from hfxling import fit_lexical, load_parallel
from hfxling.methods.lexical.export import export_lexical, load_lexical


def test_a_folder_may_be_written_again(tmp_path):
    found = load_parallel("sample", "zh", "vi", split="train")[:60]
    model = fit_lexical(found["source"], found["target"], ("zh", "vi"), views=["fine"], rank=4)
    export_lexical(model, tmp_path / "model")
    first = {path: path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file()}
    export_lexical(model, tmp_path / "model")
    assert {path: path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file()} == first
    for folder in ("model", "model/sparse"):  # an index says a module's place, as where sentence-transformers writes it
        modules = json.loads((tmp_path / folder / "modules.json").read_text())
        assert [module["idx"] for module in modules] == [*range(len(modules))]
    loaded = load_lexical(tmp_path / "model")
    for lang in ("zh", "vi"):
        np.testing.assert_allclose(loaded.static[lang], model.static[lang], atol=1e-6)
