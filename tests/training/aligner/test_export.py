"""Every door of a published aligner, opened in a process that has not imported hfxling, gives the model's vectors."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hfxling.data.segment import learn_vocabularies, load_vocabularies, register_segmenter
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.training.aligner.arguments import AlignerArguments
from hfxling.training.aligner.export import export_aligner
from hfxling.training.aligner.train import new_model

LINES = {"lo": ["ຂ້ອຍ ກິນ ເຂົ້າ", "ລາວ ກິນ ປາ", "ຂ້ອຍ ຮັກ ລາວ"], "zh": ["我吃饭", "他吃鱼", "我爱他"]}
TEXTS = {"lo": ["ຂ້ອຍ ກິນ ປາ", "ລາວ"], "zh": ["我爱鱼", "他"]}
OPEN = """
import json, sys
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

folder, texts = sys.argv[1], json.loads(sys.argv[2])
static = SentenceTransformer(folder, device="cpu")
contextual = SentenceTransformer(folder + "/contextual", trust_remote_code=True, device="cpu")
model = AutoModel.from_pretrained(folder, trust_remote_code=True)
found = {"query": static.encode_query(texts["lo"]).tolist()}
for lang, lines in texts.items():
    tokenizer = AutoTokenizer.from_pretrained(folder, subfolder=f"tokenizer_{lang}")
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, language=lang)
    found[lang] = {
        "static": static.encode(lines, task=lang).tolist(),
        "contextual": contextual.encode(lines, task=lang).tolist(),
        "transformers": output.sentence_embedding.tolist(),
    }
try:
    static.encode(["x"])
except ValueError:
    found["refused"] = True
print(json.dumps(found | {"hfxling": "hfxling" in sys.modules}))
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    AlignerConfig.register_for_auto_class()
    AlignerModel.register_for_auto_class("AutoModel")
    vocabularies = learn_vocabularies(LINES, size=60, pieces=80)
    args = AlignerArguments(pairs=["lo-zh"], train_data=["sample"], size=8)
    torch.manual_seed(0)
    model = new_model(args, vocabularies).eval()
    folder = tmp_path_factory.mktemp("published") / "model"
    export_aligner(model, vocabularies, folder)
    return folder, model, vocabularies


def test_every_door_gives_the_models_vectors(published, tmp_path):
    folder, model, vocabularies = published
    run = subprocess.run(
        [sys.executable, "-c", OPEN, str(folder), json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "REPORT" not in run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert not found["hfxling"]
    assert found["refused"]
    for lang, texts in TEXTS.items():
        rows = [vocabularies[lang].encode(text).ids for text in texts]
        table = model.static_table(lang).numpy()
        means = np.stack([table[row].mean(0) for row in rows])
        unit = means / np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(found[lang]["static"], unit, atol=1e-5)
        for row, contextual, auto in zip(rows, found[lang]["contextual"], found[lang]["transformers"]):
            with torch.no_grad():
                alone = model(torch.tensor([row]), language=lang).sentence_embedding[0]
            np.testing.assert_allclose(contextual, alone, atol=1e-5)
            np.testing.assert_allclose(auto, alone, atol=1e-5)
    np.testing.assert_allclose(found["query"], found["lo"]["static"], atol=1e-6)


def test_the_folder_holds_code_without_hfxling_and_no_pickles(published):
    folder, _, _ = published
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"modeling_aligner.py", "aligner_layers.py", "contextual/aligner_sentences.py"} <= names
    assert {"tokenizer_lo/tokenizer.json", "tokenizer_pieces/tokenizer.json", "model.safetensors"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt"))]
    for name in names:
        if name.endswith(".py"):
            assert "hfxling." not in Path(folder / name).read_text(encoding="utf-8").replace("`hfxling.", "")


def test_reloaded_with_its_vocabularies(published):
    folder, model, vocabularies = published
    loaded = AlignerModel.from_pretrained(folder)
    again = load_vocabularies(str(folder), loaded.config.languages)
    for lang, texts in TEXTS.items():
        assert [row.ids for row in again[lang].encode_batch(texts)] == [
            row.ids for row in vocabularies[lang].encode_batch(texts)
        ]
        assert torch.equal(loaded.static_table(lang), model.static_table(lang))


def test_a_language_cut_by_a_users_function_has_no_static_route(published, tmp_path):
    register_segmenter("halves", lambda line: [line[: len(line) // 2], line[len(line) // 2 :]])
    vocabularies = learn_vocabularies(LINES, segmenters={"lo": "halves"}, size=60, pieces=80)
    args = AlignerArguments(pairs=["lo-zh"], train_data=["sample"], size=8)
    export_aligner(new_model(args, vocabularies), vocabularies, tmp_path)
    structure = json.loads((tmp_path / "router_config.json").read_text())["structure"]
    assert list(structure) == ["zh", "query"]
