"""Every method through one matrix; another method is a row of `METHODS` in tests/support/methods.py."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from methods import METHODS, embed, needs_flag, open_doors, publish_all, texts_of, tokenizer_of
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from served_model import PROBES, ServedModel
from transformers import AutoModel

from hfxling.hub.served import server_fault
from hfxling.hub.writing import export
from hfxling.models import DisentanglerConfig, DisentanglerModel, SiameseConfig, SiameseModel

PROCESSES = (["sentence-transformers"], ["with the flag", "sparse", "remote code"], ["hfxling"])
FURTHER = {"sparse": "lexical"}  # folders that one method has
STOCK = ("sentence-transformers", "with the flag")
MISFITS = [(name, i) for name, method in METHODS.items() for i in range(len(method.misfits))]
FAULTS = {
    "missing": (lambda tensors, key: tensors.pop(key), "lacks 1 weights|holds"),
    "left over": (lambda tensors, key: tensors.update({"what": tensors[key].clone()}), "beyond what is needed|holds"),
    "shape": (lambda tensors, key: tensors.update({key: tensors[key][:-1]}), "wrong shape|holds"),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("published")


@pytest.fixture(scope="module")
def written(root):
    return publish_all(root)


@pytest.fixture(scope="module", params=METHODS)
def one(request, root, written):
    """The first variant of every method: its folder and what was published there."""
    name = next(name for name, each in written.items() if each.method is METHODS[request.param])
    return root / name, written[name]


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def loaders(method):
    """Both ways to the method's class."""
    return method.cls.from_pretrained, lambda folder: AutoModel.from_pretrained(folder, trust_remote_code=True)


@pytest.mark.slow
def test_every_door_gives_the_models_vectors_in_a_fresh_process_without_a_word(root, written, warm_python):
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda doors: open_doors(root, written, doors, warm_python), PROCESSES))
    opened = set()
    for process in found:
        for name, doors in process.items():
            for door, vectors in doors.items():
                expected = written[name].stock if door in STOCK else written[name].vectors
                for language, rows in vectors.items():
                    opened.add((name, door))
                    torch.testing.assert_close(torch.tensor(rows), expected[language], atol=1e-5, rtol=0)
    every = {(name, door) for name in written for doors in PROCESSES for door in doors if door not in FURTHER}
    further = {(name, door) for door, method in FURTHER.items() for name in written if name.startswith(method)}
    assert opened - every == further
    assert every - opened == {(name, "sentence-transformers") for name in written if needs_flag(root / name)} != set()


def test_a_server_gives_the_same_vectors_or_is_said_not_to(root, written):
    """By the files that text-embeddings-inference reads; the reason says what it would leave out."""
    reasons = {name: server_fault(root / name) for name in written}
    ignored = {name for name, reason in reasons.items() if "Normalize before a Dense" in reason}
    for name, (model, *_) in written.items():
        if reasons[name] == "" or name in ignored:
            expected = SentenceTransformer(str(root / name), device="cpu").encode([*PROBES], convert_to_tensor=True)
            served = torch.from_numpy(ServedModel(root / name)(PROBES))
            assert ((served - expected).abs().max() < 1e-5) == (reasons[name] == ""), name
        assert not (reasons[name] == "" and getattr(model.config, "needs_language", False))
    told = {reason.removeprefix("the server ") for reason in reasons.values()}
    assert {"knows no module NormalizeParts", "has no code for mt5 encoders", "knows no ReLU after a map"} <= told
    assert any("--default-prompt-name text" in reason for reason in told)
    assert {"siamese_tanh", "siamese_two_layers", "siamese_one_language", "disentangler_mean_unit_vectors"} <= ignored
    for name in ignored:
        kinds = [entry["type"].rpartition(".")[2] for entry in json.loads((root / name / "modules.json").read_text())]
        assert "Dense" in kinds[kinds.index("Normalize") :], name
    assert {"siamese_paper", "siamese_raw_input", "siamese_one_language_raw_input", "dap_bert", "disentangler_cls"} <= {
        name for name, reason in reasons.items() if not reason
    }


def test_folders_are_in_the_schema_that_older_clients_read(root, written):
    """`make test-clients` shows that they do; this needs no other environment."""
    newer = {"embedding_dimension", "pooling_mode", "route_mappings", "module_input_name", "backend", "is_local"}
    seen = set()
    for name in written:
        types = []
        for path in (root / name).rglob("*.json"):
            if {*FURTHER} & {*path.parts} or path.name == "tokenizer.json":
                continue
            seen.add(path.name)
            content = json.loads(path.read_text())
            if path.name == "modules.json":
                types += [module["type"] for module in content if module["type"] != "pooling.NormalizeParts"]
                continue
            types += content.get("types", {}).values()
            assert not newer & {*content, *content.get("parameters", {})}, path
            if path.name == "tokenizer_config.json":
                assert content["tokenizer_class"] == "PreTrainedTokenizerFast"
                assert content["model_input_names"] == ["input_ids", "attention_mask"]
                assert not isinstance(content.get("extra_special_tokens"), list)
            if path.name == "sentence_bert_config.json":
                assert content == {"max_seq_length": 32, "do_lower_case": False}
            if rope := content.get("rope_parameters"):
                assert content["rope_theta"] == rope["rope_theta"] == 50.0
        assert types
        assert all(re.fullmatch(r"sentence_transformers\.models\.[A-Za-z]+", each) for each in types)
    assert {"tokenizer_config.json", "sentence_bert_config.json", "router_config.json"} <= seen


def test_auto_model_without_the_flag_is_the_plain_encoder(one):
    folder, (model, *_) = one
    plain = AutoModel.from_pretrained(folder)
    assert type(plain) is (type(model.encoder) if hasattr(getattr(model, "encoder", None), "config") else type(model))


def test_padding_and_company_change_nothing(one):
    folder, (model, method, vectors, _) = one
    for language, texts in texts_of(model).items():
        tokenizer = tokenizer_of(folder, language)
        for text, expected in zip(texts, vectors[language]):
            alone = embed(model, tokenizer, [text], language)
            torch.testing.assert_close(alone[0], expected, atol=1e-6, rtol=0)
            longer = {"padding": "max_length", "max_length": 30}
            padded = embed(model, tokenizer, [text], language, padding_side="right", **longer)
            torch.testing.assert_close(padded[0], expected, atol=1e-6, rtol=0)
        if method.right_padding_only:
            with pytest.raises(ValueError, match="pad on the right"):
                embed(model, tokenizer, texts, language, padding_side="left", **longer)
        else:
            left = embed(model, tokenizer, texts, language, padding_side="left", **longer)
            torch.testing.assert_close(left, vectors[language], atol=1e-6, rtol=0)


def test_loaded_and_saved_again_is_the_same_folder(one, tmp_path, capfd):
    folder, (_, method, *_) = one
    for i, load in enumerate(loaders(method)):
        method.write(load(folder), folder, tmp_path / str(i))
        assert files_of(tmp_path / str(i)) == files_of(folder)
    assert "REPORT" not in "".join(capfd.readouterr())


def test_bfloat16_is_close(one, tmp_path):
    folder, (_, method, vectors, _) = one
    model = method.cls.from_pretrained(folder).to(torch.bfloat16)
    method.write(model, folder, tmp_path / "half")
    half = method.cls.from_pretrained(tmp_path / "half", dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    for language, texts in texts_of(model).items():
        found = embed(half, tokenizer_of(folder, language), texts, language)
        assert torch.cosine_similarity(found.float(), vectors[language]).min() > 0.99


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_do_not_fill_the_model_are_refused(fault, one, tmp_path):
    folder, (_, method, *_) = one
    change, message = FAULTS[fault]
    used = [path for path in folder.rglob("*.safetensors") if "Static" not in str(path)]
    for i, path in enumerate(path.relative_to(folder) for path in used):
        broken = shutil.copytree(folder, tmp_path / str(i))
        tensors = load_file(broken / path)
        change(tensors, sorted(tensors)[-1])
        save_file({key: value.contiguous() for key, value in tensors.items()}, broken / path, {"format": "pt"})
        with pytest.raises(ValueError, match=message) as error:
            method.cls.from_pretrained(broken)
        assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_broken_is_refused(one, tmp_path):
    folder, (_, method, *_) = one
    used = [path for path in folder.rglob("*.safetensors") if "Static" not in str(path) and path.parent != folder]
    for i, path in enumerate([folder / "model.safetensors", *used]):
        broken = shutil.copytree(folder, tmp_path / f"{i}")
        (broken / path.relative_to(folder)).write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match="cannot be read"):
            method.cls.from_pretrained(broken)
        if path in used:
            (broken / path.relative_to(folder)).unlink()
            with pytest.raises(ValueError, match="cannot be read"):
                method.cls.from_pretrained(broken)


@pytest.mark.parametrize(("name", "number"), MISFITS)
def test_a_configuration_that_does_not_fit_its_modules_is_refused(name, number, root, written, tmp_path):
    folder = next(root / key for key, each in written.items() if each.method is METHODS[name])
    path, change = METHODS[name].misfits[number]
    shutil.copytree(folder, tmp_path / "model")
    content = json.loads((folder / path).read_text())
    (tmp_path / "model" / path).write_text(json.dumps(change(content)))
    with pytest.raises(ValueError) as error:
        METHODS[name].cls.from_pretrained(tmp_path / "model")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place", [0, -1])
def test_weights_that_are_not_finite_are_not_published(place, one, tmp_path):
    folder, (_, method, *_) = one
    model = method.cls.from_pretrained(folder)
    name, tensor = [item for item in model.state_dict().items() if item[1].is_floating_point()][place]
    tensor.view(-1)[-1] = torch.nan
    with pytest.raises(ValueError, match=re.escape(f"{name} holds values that are not finite")):
        method.write(model, folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_another_methods_folder_is_refused(one, tiny_bert):
    _, (_, method, *_) = one
    if not getattr(method.cls, "any_encoder", False):
        with pytest.raises(ValueError):
            method.cls.from_pretrained(tiny_bert)


@pytest.mark.parametrize(("cls", "config"), [(SiameseModel, SiameseConfig), (DisentanglerModel, DisentanglerConfig)])
def test_a_head_without_encoder(cls, config, tmp_path):
    torch.manual_seed(0)
    model, features = cls(config(hidden_size=6, bias=True)).eval(), torch.randn(4, 6)
    export(model, None, tmp_path)
    for load in loaders(next(method for method in METHODS.values() if method.cls is cls)):
        loaded = load(tmp_path)
        assert torch.equal(loaded(features=features).sentence_embedding, model(features=features).sentence_embedding)
        with pytest.raises(ValueError, match="give features="):
            loaded(input_ids=torch.tensor([[1, 2]]))
        about = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(about | {"bias": False}))
        with pytest.raises(ValueError, match="beyond what is needed"):
            load(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps(about))
