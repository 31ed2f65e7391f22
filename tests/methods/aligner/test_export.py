"""What a published aligner's folder holds; its doors are opened in tests/models/test_every_method.py."""

import json
from pathlib import Path

import pytest
import torch

from hfxling.data.segment import learn_vocabularies, load_vocabularies, register_segmenter
from hfxling.methods.aligner.arguments import AlignerSettings
from hfxling.methods.aligner.export import export_aligner
from hfxling.methods.aligner.train import new_model
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel

LINES = {"lo": ["ຂ້ອຍ ກິນ ເຂົ້າ", "ລາວ ກິນ ປາ", "ຂ້ອຍ ຮັກ ລາວ"], "zh": ["我吃饭", "他吃鱼", "我爱他"]}
TEXTS = {"lo": ["ຂ້ອຍ ກິນ ປາ", "ລາວ"], "zh": ["我爱鱼", "他"]}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    AlignerConfig.register_for_auto_class()
    AlignerModel.register_for_auto_class("AutoModel")
    vocabularies = learn_vocabularies(LINES, size=60, pieces=80)
    args = AlignerSettings(size=8)
    torch.manual_seed(0)
    model = new_model(args, vocabularies).eval()
    folder = tmp_path_factory.mktemp("published") / "model"
    export_aligner(model, vocabularies, folder)
    return folder, model, vocabularies


def test_the_folder_holds_code_without_hfxling_and_no_pickles(published):
    folder, _, _ = published
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"modeling_aligner.py", "aligner_layers.py"} <= names
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
    args = AlignerSettings(size=8)
    export_aligner(new_model(args, vocabularies), vocabularies, tmp_path)
    structure = json.loads((tmp_path / "router_config.json").read_text())["structure"]
    assert list(structure) == ["zh", "query"]
