"""Pairs in, the best model for them out: what competes, what is written, what is refused."""

import hashlib
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import sentence_pairs
from huggingface_hub import HfApi
from peft import PeftModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Router,
    StaticEmbedding,
    Transformer,
)
from transformers import AutoModel, AutoTokenizer

import hfxling
from hfxling.cli import main
from hfxling.data.corpus import corpus_of
from hfxling.data.pairs import read_pairs
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.encoders.loading import load_encoder
from hfxling.evaluation.results import read_results
from hfxling.evaluation.retrieval import gold_ranks
from hfxling.hub.checks import folder_contents
from hfxling.hub.doors import door_faults
from hfxling.hub.release import Release, renamed
from hfxling.methods.dap.finetune import EPOCHS, Finetuned, TooLong
from hfxling.methods.lexical import Arguments as LinkArguments
from hfxling.methods.publishing import COSTS
from hfxling.selection.candidates import Candidate, Clock
from hfxling.selection.select import eligible, most_precise, simplest_of
from hfxling.sentences.neighbours import unit

PAIRS = sentence_pairs(60)
SIDES = [[pair[side] for pair in PAIRS] for side in (0, 1)]
LANGUAGES = ("zh", "vi")


@pytest.fixture(scope="module", autouse=True)
def links_alone():
    """Whether the model helps with links is tried in tests/methods/lexical/test_data.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hfxling.selection.candidates.FEW", 0)
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> list[str]:
    """Two line-aligned files."""
    folder = tmp_path_factory.mktemp("text")
    files = []
    for side, lang in zip(SIDES, LANGUAGES):
        file = folder / f"my.{lang}"
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        files.append(str(file))
    return files


@pytest.fixture(scope="module")
def everything(text, tiny_bert, tmp_path_factory):
    """All that can compete, in memory."""
    cache = tmp_path_factory.mktemp("cache")
    return hfxling.select(*SIDES, languages=LANGUAGES, model=str(tiny_bert), output=None, cache_dir=cache)


@pytest.fixture(scope="module")
def e5_like(tiny_bert, tmp_path_factory) -> Path:
    """An encoder whose folder has the prompts of E5, none of them its default."""
    folder = tmp_path_factory.mktemp("e5") / "renamed"
    shutil.copytree(tiny_bert, folder)
    prompts = {"query": "query: ", "document": "passage: "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    return folder


@pytest.mark.parametrize(("given", "expected"), [(None, "query: "), ("Frage: ", "Frage: "), ("", None)])
def test_the_written_model_has_the_prompt_that_the_vectors_had(e5_like, tmp_path, given, expected):
    options = {"prompt": given, "only": ["head"], "progress": False, "cache_dir": tmp_path / "cache"}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, model=e5_like, output=tmp_path, **options)
    assert [each.name for each in selection.candidates] == ["encoder", "head"]
    written = SentenceTransformer(str(selection.folders["folder"]), device="cpu")
    assert written.prompts.get(written.default_prompt_name) == expected
    head = selection._fitted.competitors.heads["head"]
    raw = FrozenEncoder(str(e5_like), [(head.recipe.layer_index, "mean")], device="cpu", prompt=expected)
    assert np.allclose(head.sides[0][:5], raw(SIDES[0][:5])[:, 0], atol=1e-5)


def test_languages_that_are_exchanged_are_warned_of(caplog):
    hfxling.select(*SIDES, languages=LANGUAGES[::-1], only=["sparse"], output=None)
    assert f"are not in {LANGUAGES[1]!r}; check the languages" in caplog.text


@pytest.mark.parametrize("kind", ["sparse", "head"])
def test_what_training_took_is_not_written(kind, tiny_bert, tmp_path):
    """No two runs take the same time, and what they write is the same."""
    model = str(tiny_bert) if kind == "head" else None
    options = {"only": [kind], "progress": False, "cache_dir": tmp_path / "cache", "output": tmp_path / "out"}
    hfxling.select(*SIDES, languages=LANGUAGES, model=model, **options)
    reached = json.loads((tmp_path / "out" / "model" / "results.json").read_text())["reached"]
    assert reached
    assert not {*COSTS} & {*reached}


def test_an_encoder_that_is_ahead_of_what_is_learnt_is_named(tiny_bert, tmp_path):
    selection = hfxling.select(
        *SIDES, languages=LANGUAGES, model=str(tiny_bert), only=["centred"], output=None, cache_dir=tmp_path
    )
    ahead = "the encoder as it is finds"
    encoder, centred = selection.candidates
    found, missed = np.ones(12, int), np.full(12, 2)
    for fold in encoder.ranks:
        encoder.ranks[fold], centred.ranks[fold] = (found, found), (missed, missed)
    assert f"{ahead} 100.0 % more than centred: use that" in selection.table()
    encoder.ranks = dict(centred.ranks)
    assert ahead not in selection.table()


def test_the_mean_of_an_encoder_that_pools_otherwise_is_warned_of(tiny_bert, tmp_path, caplog):
    encoder = Transformer(str(tiny_bert))
    pooling = Pooling(encoder.get_embedding_dimension(), pooling_mode="cls")
    SentenceTransformer(modules=[encoder, pooling]).save(str(tmp_path / "encoder"))
    options = {"model": tmp_path / "encoder", "only": ["centred"], "output": None, "cache_dir": tmp_path / "cache"}
    hfxling.select(*SIDES, languages=LANGUAGES, **options)
    assert "pools by its first token" not in caplog.text
    hfxling.select(*SIDES, languages=LANGUAGES, **options, pooling="mean")
    assert "pools by its first token, not by the mean; give --pooling cls" in caplog.text


@pytest.mark.parametrize("further", [False, True])
def test_an_encoder_competes_with_its_own_pooling_and_what_follows_it(tiny_bert, tmp_path, further):
    encoder = Transformer(str(tiny_bert))
    size = encoder.get_embedding_dimension()
    modules = [encoder, Pooling(size, pooling_mode="cls")]
    if further:
        modules.append(Dense(size, 5))
    model = SentenceTransformer(modules=[*modules, Normalize()])
    model.save(str(tmp_path / "encoder"))
    options = {"model": tmp_path / "encoder", "cache_dir": tmp_path / "cache", "only": ["centred"]}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, output=tmp_path, **options)
    found = []
    for fold in selection.folds:
        source, target = [model.encode([texts[row] for row in fold]) for texts in SIDES]
        for ranks in gold_ranks(source, target):
            found.append(np.mean(ranks <= 1))
    np.testing.assert_allclose(selection.candidate("encoder").precision, 100 * np.mean(found), atol=1e-6)
    pooling = SentenceTransformer(str(selection.folders["folder"]), trust_remote_code=True)[1]
    assert pooling.pooling_mode == "cls"


def test_heads_are_on_what_comes_out_of_an_encoder_that_does_more_than_to_pool(tiny_bert, tmp_path):
    encoder = Transformer(str(tiny_bert))
    size = encoder.get_embedding_dimension()
    model = SentenceTransformer(modules=[encoder, Pooling(size, "cls"), Dense(size, 12), Normalize()])
    model.save(str(tmp_path / "encoder"))
    options = {"model": tmp_path / "encoder", "cache_dir": tmp_path / "cache", "minutes": 0.01}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, output=tmp_path, choose="head", **options)
    names = [each.name for each in selection.candidates]
    assert {"encoder", "centred", "head", "fused"} < set(names)
    assert "finetuned" not in names
    written = SentenceTransformer(str(selection.folders["folder"]), device="cpu")
    kinds = [type(module).__name__ for module in written]
    assert kinds[:3] == ["Transformer", "Pooling", "Dense"]
    head = selection._fitted.competitors.heads["head"]
    head.fit(np.arange(len(SIDES[0])))
    source, target = (unit(head.embed(side, np.arange(5))) for side in (0, 1))
    found = written.similarity(written.encode_query(SIDES[0][:5]), written.encode_document(SIDES[1][:5]))
    np.testing.assert_allclose(found, source @ target.T, atol=1e-4)
    card = (selection.folders["folder"] / "README.md").read_text(encoding="utf-8")
    assert "on the sentence vectors of a frozen" in card
    assert door_faults(selection.folders["folder"], "siamese") == []
    assert "trust_remote_code" not in card
    # What sentence-transformers 5 knows.
    folder = selection.folders["folder"]
    kinds = [module["type"] for module in json.loads((folder / "modules.json").read_text(encoding="utf-8"))]
    assert {kind.rpartition(".")[0] for kind in kinds} == {"sentence_transformers.models"}
    settings = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*_*/**/config.json"))
    assert "module_input_name" not in settings
    assert "pooling_mode_cls_token" in settings
    assert json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8")).keys() == {
        "do_lower_case",
        "max_seq_length",
    }


@pytest.fixture(scope="module")
def static_encoder(tiny_bert, tmp_path_factory) -> Path:
    """A folder of static embeddings, as model2vec and sentence-transformers publish them."""
    folder = tmp_path_factory.mktemp("static") / "static"
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert).backend_tokenizer
    torch.manual_seed(0)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16), Normalize()]).save(str(folder))
    return folder


def test_an_encoder_with_code_of_its_own_competes_by_its_vectors(encoder_with_code, tmp_path, refusal):
    """What is written has the code, too, and opens with leave alone; its test is done again the same way."""
    texts = {"languages": LANGUAGES, "model": encoder_with_code, "cache_dir": tmp_path / "cache"}
    assert "brings code of its own; look at it" in refusal(lambda: hfxling.select(*SIDES, **texts, output=None))
    for side, lang in zip(SIDES, LANGUAGES):
        (tmp_path / f"text.{lang}").write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    files = [str(tmp_path / f"text.{lang}") for lang in LANGUAGES]
    train, test = ([f"{file}@{lines}" for file in files] for lines in ("1-30", "31-40"))
    options = {"test": test, "output": tmp_path, "choose": "fused", "trust_remote_code": True}
    selection = hfxling.select(*train, **texts, **options)
    names = [each.name for each in selection.candidates]
    assert names == ["encoder", "centred", "head", "static", "sparse", "fused"]
    assert selection.candidate("centred").needs == "trust_remote_code"
    assert selection.use.endswith("--trust_remote_code true")
    folder = selection.folders["folder"]
    assert door_faults(folder, "siamese") == []
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert ", trust_remote_code=True)" in card
    assert "its code is in this repository" in card
    assert "--trust_remote_code" in card
    assert "brings code of its own" in hfxling.verify(folder, cache_dir=tmp_path / "cache").table()
    again = hfxling.verify(folder, cache_dir=tmp_path / "cache", trust_remote_code=True)
    assert (again.equal, again.faults) == (4, [])


@pytest.mark.parametrize(
    "options",
    [{"only": ["layers"]}, {"choose": "finetuned"}, {"pooling": "cls"}, {"links_with_model": True}],
)
def test_what_reads_layers_is_refused_of_static_embeddings(options, static_encoder, tmp_path):
    with pytest.raises(ValueError, match="only sentence vectors are read; leave it out"):
        hfxling.select(*SIDES, languages=LANGUAGES, model=static_encoder, output=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_encoder_with_sparse_vectors_is_refused(tmp_path):
    (tmp_path / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}', encoding="utf-8")
    with pytest.raises(ValueError, match="has sparse vectors; give an encoder with dense ones"):
        hfxling.select(*SIDES, languages=LANGUAGES, model=tmp_path, output=tmp_path / "out")


def test_an_adapter_without_its_encoder_is_refused(tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA"}', encoding="utf-8")
    with pytest.raises(ValueError, match="holds a LoRA adapter alone: merge it into its encoder"):
        hfxling.select(*SIDES, languages=LANGUAGES, model=tmp_path / "adapter", output=tmp_path / "out")


def test_an_encoder_with_routes_is_refused(static_encoder, tmp_path):
    parts = {"query": [SentenceTransformer(str(static_encoder))[0]], "document": [Normalize()]}
    SentenceTransformer(modules=[Router(parts, default_route="query")]).save(str(tmp_path / "routed"))
    with pytest.raises(ValueError, match="the model has routes"):
        hfxling.select(*SIDES, languages=LANGUAGES, model=tmp_path / "routed", output=tmp_path / "out")


def test_centred_vectors_compete_and_are_written_as_a_stock_folder(tiny_bert, tmp_path):
    options = {"model": str(tiny_bert), "cache_dir": tmp_path / "cache", "progress": False}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, only=["centred"], output=tmp_path, **options)
    assert [each.name for each in selection.candidates] == ["encoder", "centred"]
    assert selection.winner.needs == "nothing"
    source, target = (unit(np.asarray(side)) for side in selection._fitted.competitors.encoder.sides)
    middle, gap = (source.mean(0) + target.mean(0)) / 2, source.mean(0) - target.mean(0)
    expected = []
    for side in (source[:5], target[:5]):
        centred = side - middle
        expected.append(unit(centred - np.outer(centred @ gap, gap) / (gap @ gap)))
    written = SentenceTransformer(str(selection.folders["folder"]), device="cpu")
    encoded = [written.encode(side[:5]) for side in SIDES]
    assert np.allclose(encoded[0] @ encoded[1].T, expected[0] @ expected[1].T, atol=1e-5)


def test_files_and_lists_give_the_same(text, tmp_path):
    by_files = hfxling.select(*text, languages=LANGUAGES, output=None)
    by_lists = hfxling.select(*SIDES, languages=LANGUAGES, output=None, progress=False)
    assert "nothing is written yet" in by_files.table()
    assert by_lists.folders == {}
    for one, other in zip(by_files.candidates, by_lists.candidates, strict=True):
        assert (one.name, one.interval) == (other.name, other.interval)
        assert np.array_equal(one.hits(), other.hits())
    by_lists.save(tmp_path)
    content = json.loads((tmp_path / "model" / "results.json").read_text())
    assert content["competed"] == {each.name: round(each.precision, 2) for each in by_files.candidates}
    assert content["results"][0]["dataset"] == "texts in memory"
    verified = hfxling.verify(tmp_path / "model")
    assert verified.exit_status == 0
    assert "no figure measured again" in verified.table()
    assert f"use it: {by_lists.use}" in by_lists.table()
    assert str(tmp_path / "model") in by_lists.use


def test_texts_in_memory_are_filtered_and_accounted_for():
    args = LinkArguments(pairs=["zh-vi"], train_data=["memory"], test_data=[])
    lists = [[*side, side[0]] for side in SIDES]  # a pair twice
    (found,) = corpus_of(args, read_pairs(*lists, LANGUAGES)).pairs
    assert (found.read, found.used, sum(found.dropped.values()), found.leaks) == (61, 60, 1, 0)


def test_dense_and_sparse_are_written_together(everything, tmp_path):
    folders = everything.save(tmp_path, "fused")
    assert folders == {"folder": tmp_path / "model", "lexical": tmp_path / "lexical" / "model"}
    encoder = load_encoder(str(folders["folder"]), str(folders["lexical"]), trust_remote_code=True)
    query = encoder.encode([PAIRS[7][0]], "zh", "query")
    documents = encoder.encode(SIDES[1], "vi", "document")
    assert (query @ documents.T).toarray().argmax() == 7
    content = json.loads((tmp_path / "model" / "results.json").read_text(encoding="utf-8"))
    assert {"encoder", "head", "static", "sparse", "fused"} <= {*content["competed"]}
    assert {row["settings"]["stage"] for row in content["results"]} == {"before", "after"}
    assert content["card"]["lexical"] == "zh-vi-lexical"
    assert everything.use.startswith('hfxling nearest "..." --candidates FILE --model')
    everything.save(tmp_path / "other", "head")
    assert SentenceTransformer(str(tmp_path / "other" / "model"), device="cpu") is not None
    with pytest.raises(ValueError, match="'encoder' is the model that was given"):
        everything.save(tmp_path, "encoder")


def test_only_what_is_wanted_competes_with_what_it_is_made_of(tiny_bert, tmp_path):
    def names(*only):
        options = {"model": str(tiny_bert), "only": only, "output": None, "cache_dir": tmp_path}
        selection = hfxling.select(*SIDES, languages=LANGUAGES, **options)
        assert all(len(candidate.ranks) == 5 for candidate in selection.candidates if "tuned" not in candidate.name)
        return [candidate.name for candidate in selection.candidates]

    assert names("sparse") == ["static", "sparse"]
    fused = names("fused")
    assert [name for name in fused if name != "layers"] == ["encoder", "head", "static", "sparse", "fused"]


def test_with_few_pairs_centred_vectors_are_fused_with_the_links_too(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.selection.candidates.FEW", len(PAIRS))
    options = {"model": str(tiny_bert), "links_with_model": False, "cache_dir": tmp_path / "cache", "output": None}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, **options, only=["fused"])
    competitors = selection._fitted.competitors
    assert [fused.dense.candidate.name for fused in competitors.fused_heads][:2] == ["centred", "head"]
    precisions = [fused.candidate.precision for fused in competitors.fused_heads]
    assert competitors.fused is competitors.fused_heads[precisions.index(max(precisions))]
    assert selection.candidate("fused").precision == max(precisions)
    competitors.fused_heads = competitors.fused_heads[:1]
    selection.save(tmp_path, "fused")
    content = json.loads((tmp_path / "model" / "results.json").read_text(encoding="utf-8"))
    assert content["settings"]["fit"] == "centred"


def test_what_wants_to_know_the_language_may_not_win_with_one_map(tiny_bert, tmp_path):
    options = {"model": str(tiny_bert), "output": None, "cache_dir": tmp_path, "one_map": True}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, **options, only=["fused"])
    assert not selection.winner.needs_language
    assert selection.candidate("sparse").needs_language
    assert selection.candidate("fused").needs_hfxling
    with pytest.raises(
        ValueError, match=r"choose='sparse' is not possible: with one_map=True .*; choose one of static, or "
    ):
        hfxling.select(*SIDES, languages=LANGUAGES, **options, choose="sparse", only=["sparse"])


def test_what_cannot_be_chosen_is_said_with_what_can_be():
    candidates = [Candidate("encoder"), Candidate("head"), Candidate("sparse", needs_language=True)]
    for choose, one_map, told in (
        ("layers", False, "no set of several layers was better than one layer; choose one of head, sparse, or leave"),
        ("finetuned", False, "there was no time for fine-tuning; choose one of head, sparse, or give more --minutes"),
        ("sparse", True, "need not know the language of a text; choose one of head, or leave out --one_map"),
    ):
        with pytest.raises(ValueError, match=f"choose='{choose}' is not possible: .*{told}"):
            eligible(candidates, choose, one_map)
    with pytest.raises(ValueError, match=r"nothing can be chosen: with one_map=True .*; leave out --one_map"):
        eligible(candidates[2:], None, one_map=True)


def competed(name: str, hits: dict[int, list[bool]]) -> Candidate:
    """A candidate that found those pairs of each fold, both ways."""
    ranks = {fold: (np.where(found, 1, 2), np.where(found, 1, 2)) for fold, found in hits.items()}
    return Candidate(name, ranks=ranks)


def test_the_simplest_wins_that_is_as_good_as_the_best():
    fold = [True] * 100
    best = competed("fused", {0: fold, 1: fold})
    near = competed("static", {0: fold, 1: [False, *fold[1:]]})
    far = competed("head", {0: fold, 1: [*[False] * 20, *fold[20:]]})
    able = [far, near, best]
    assert most_precise(able) is best
    assert simplest_of(able, best) is near, "half a per cent may be chance, ten are none"
    short = competed("finetuned", {0: fold})
    assert short.lead(far).tolist() == [0.0] * 100, "compared by the fold that both competed in"


def test_neighbours_are_left_out_together(everything):
    assert [fold.tolist() for fold in everything.folds] == [list(range(i, i + 12)) for i in range(0, 60, 12)]


def test_of_many_pairs_some_of_every_part_of_the_text_are_left_out(monkeypatch):
    monkeypatch.setattr("hfxling.selection.select.MOST", 40)
    monkeypatch.setattr("hfxling.selection.select.HELD_OUT", 20)
    selection = hfxling.select(*SIDES, languages=LANGUAGES, only=["sparse"], output=None)
    assert len(SIDES[0]) == 60
    assert [fold.tolist() for fold in selection.folds] == [[row for row in range(60) if row % 6 in (4, 5)]]
    assert "20 pairs left out, 10 times 2 neighbouring lines, which are together the candidates" in selection.table()


def test_the_encoder_trained_further_is_a_stock_folder_with_its_adapter(tiny_bert, e5_like, tmp_path):
    options = {"only": ["finetuned"], "choose": "finetuned", "progress": False, "cache_dir": tmp_path / "cache"}
    selection = hfxling.select(*SIDES, languages=LANGUAGES, model=e5_like, output=tmp_path, device="cpu", **options)
    assert [each.name for each in selection.candidates] == ["encoder", "finetuned"]
    folder = selection.folders["folder"]
    written = SentenceTransformer(str(folder), device="cpu")
    assert written.prompts[written.default_prompt_name] == "query: "
    before = SentenceTransformer(str(e5_like), device="cpu").encode(SIDES[0][:4], prompt="query: ")
    after = written.encode(SIDES[0][:4])
    assert not np.allclose(before, after, atol=1e-3)
    base = AutoModel.from_pretrained(e5_like)
    adapted = PeftModel.from_pretrained(base, folder / "adapter").merge_and_unload().eval()
    merged = AutoModel.from_pretrained(folder).eval()
    batch = written.tokenizer(["query: " + SIDES[0][0]], return_tensors="pt")
    with torch.no_grad():
        states = [model(**batch).last_hidden_state for model in (adapted, merged)]
    assert torch.allclose(*states, atol=2e-2)  # adapters are kept in half precision
    assert len(selection.candidate("finetuned").hits(0)) == 12, "one fold"
    stored = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert stored["base_model_name_or_path"] == str(e5_like)
    record = json.loads((folder / "results.json").read_text())
    release = Release(folder, "org/tuned", names={str(e5_like): "org/base"}, licence="cc0-1.0")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "trained with translation ranking. Low-rank adapters" in card
    assert f'AutoModel.from_pretrained("{e5_like}")\nencoder = PeftModel.from_pretrained(encoder, "zh-vi-dap"' in card
    files, _ = renamed(folder_contents(folder), record, release, HfApi())
    assert json.loads(files["adapter/adapter_config.json"])["base_model_name_or_path"] == "org/base"
    assert b'from_pretrained("org/base")' in files["README.md"]
    digest = hashlib.sha256(files["adapter/adapter_config.json"]).hexdigest()
    assert json.loads(files["results.json"])["files"]["adapter/adapter_config.json"] == digest
    assert {row.settings["stage"]: row.n for row in selection.results(selection.winner)} == {"before": 12, "after": 12}


def test_what_there_is_no_time_for_is_left_out_and_said(tiny_bert, tmp_path, caplog):
    many = sentence_pairs(200)
    sides = [[pair[side] for pair in many] for side in (0, 1)]
    options = {"only": ["finetuned", "finetuned_fused"], "minutes": 1e-4, "output": None, "cache_dir": tmp_path}
    selection = hfxling.select(*sides, languages=LANGUAGES, model=str(tiny_bert), device="cpu", **options)
    assert [each.name for each in selection.candidates] == ["encoder", "static", "sparse"]
    assert re.search(r"finetuned does not compete: it would take about \d+ minutes in all", selection.table())
    with pytest.raises(ValueError, match="'finetuned' did not compete"):
        selection.save(tmp_path / "out", "finetuned")


def test_fine_tuning_takes_as_many_epochs_as_there_is_time_for(everything, monkeypatch):
    finetuning = everything._fitted.competitors.finetuning
    asked = []

    def trained(corpus, epochs, held_out, *, time_left, runs):
        asked.append(epochs)
        needed = 10.0 * epochs * runs
        if needed > time_left():
            raise TooLong(needed)
        return Finetuned(None, None, epochs, (np.ones(12), np.ones(12)), needed)

    rows = np.arange(60)
    with monkeypatch.context() as patch:
        patch.setattr(finetuning, "_train", trained)
        patch.setattr(finetuning, "model", None)
        patch.setattr(finetuning, "clock", Clock(minutes=30 / 60))  # an epoch of both trainings takes 22.5 s
        finetuning.compete(1, rows[12:], rows[:12])
        assert (asked, finetuning.model.epochs) == ([EPOCHS, 1], 1)
    del finetuning.candidate.ranks[1], finetuning.candidate.cpu_s[1]


def test_a_run_that_was_stopped_repeats_nothing_that_it_has_finished(tiny_bert, tmp_path, monkeypatch):
    options = {"only": ["finetuned_fused"], "choose": "finetuned_fused", "model": str(tiny_bert), "device": "cpu"}
    options |= {"languages": LANGUAGES, "cache_dir": tmp_path / "cache"}
    sides = [side[:25] for side in SIDES]
    undisturbed = hfxling.select(*sides, output=tmp_path / "undisturbed", **options)
    assert not list((tmp_path / "cache").glob("*/*.safetensors")), "what a finished run had kept is gone"

    with monkeypatch.context() as patch:
        patch.setattr("hfxling.methods.publishing.publish_run", stopped)
        with pytest.raises(KeyboardInterrupt):
            hfxling.select(*sides, output=tmp_path / "stopped", **options)
    with monkeypatch.context() as patch:  # the contest is over: nothing of it is fitted again
        patch.setattr("hfxling.methods.dap.finetune.fit", stopped)
        patch.setattr("hfxling.selection.candidates.fit_links", stopped)
        patch.setattr("hfxling.methods.publishing.publish_run", stopped)
        with pytest.raises(KeyboardInterrupt):
            hfxling.select(*sides, output=tmp_path / "stopped", **options)
    resumed = hfxling.select(*sides, output=tmp_path / "stopped", **options)
    for one, other in zip(undisturbed.candidates, resumed.candidates):
        assert np.array_equal(one.hits(), other.hits())
    weights = [tmp_path / name / "model" / "model.safetensors" for name in ("undisturbed", "stopped")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def stopped(*args, **kwargs):
    """Stands in for what must not be reached."""
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def further(tmp_path_factory) -> tuple[list[str], list[list[str]]]:
    """Test text as two files and as two lists: 30 new pairs and one of those that are learnt from."""
    pairs = [*sentence_pairs(90)[60:], PAIRS[0]]
    folder = tmp_path_factory.mktemp("test")
    files, lists = [], [[pair[side] for pair in pairs] for side in (0, 1)]
    for side, lang in zip(lists, LANGUAGES):
        path = folder / f"test.{lang}"
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        files.append(str(path))
    return files, lists


def test_the_command_needs_no_model_and_tests_on_text_that_nothing_learnt_from(text, further, tmp_path, capsys):
    words = ["fit", *text, "--languages", *LANGUAGES, "--test", *further[0], "--output", str(tmp_path)]
    main(words)
    shown = capsys.readouterr().out
    content = json.loads((tmp_path / "model" / "results.json").read_text(encoding="utf-8"))
    assert {*content["competed"]} == {"static", "sparse"}
    (name,) = (name for name in content["competed"] if f"\n{name}, " in shown)
    assert content["competed"][name] > 50
    assert f", is written:\nmodel folder: {tmp_path / 'model'}\nuse it: hfxling nearest" in shown
    assert "59 pairs left out in turn, in 5 folds of 12 neighbouring lines" in shown
    assert re.search(rf"\ntest, 31 pairs, {name}: zh->vi \d+\.\d, vi->zh", shown)
    assert {row["settings"]["stage"] for row in content["results"]} == {"after"}
    assert shlex.join(["hfxling", *words]) in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert SentenceTransformer(str(tmp_path / "model"), device="cpu").encode([PAIRS[0][0]]).shape[0] == 1
    tested = [row for row in content["results"] if row["split"] == "test"]
    assert [row["direction"] for row in tested] == ["zh->vi", "vi->zh"]
    assert f"{name}: zh->vi {tested[0]['value']:.1f}, vi->zh {tested[1]['value']:.1f}" in shown
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"\| test +\| zh->vi +\| {name} +\| P@1 \(%\) +\| +31 \|", card)
    assert content["card"]["train_data"][0]["leaks"] == 1
    verified = hfxling.verify(tmp_path / "model")
    assert (verified.faults, verified.equal, verified.rows) == ([], 2, 4)


@pytest.mark.parametrize("kind", ["head", "layers", "fused", "finetuned"])
def test_the_test_of_a_model_on_an_encoder_is_recorded_and_verified(kind, text, further, tiny_bert, tmp_path):
    options = {"model": str(tiny_bert), "only": [kind], "choose": kind, "test": further[0], "device": "cpu"}
    found = hfxling.select(*text, languages=LANGUAGES, output=tmp_path, cache_dir=tmp_path / "cache", **options)
    tested = [row for row in read_results(tmp_path / "model" / "results.json") if row.split == "test"]
    assert [(row.settings["stage"], row.settings["row"], row.direction) for row in tested] == [
        ("before", "encoder", "zh->vi"),
        ("before", "encoder", "vi->zh"),
        ("after", kind, "zh->vi"),
        ("after", kind, "vi->zh"),
    ]
    assert "paired" in tested[2].settings
    for folder in {*found.folders.values()}:
        assert re.search(r"\| test +\| vi->zh +\|", (folder / "README.md").read_text(encoding="utf-8"))
        verified = hfxling.verify(folder, device="cpu", cache_dir=tmp_path / "cache")
        is_model = folder == found.folders["folder"]
        assert (verified.faults, verified.equal) == ([], 4 if is_model else 0)


@pytest.mark.parametrize("choose", ["centred", "head", "fused"])
def test_static_embeddings_compete(choose, static_encoder, text, further, tmp_path):
    options = {"model": static_encoder, "cache_dir": tmp_path / "cache", "choose": choose, "test": further[0]}
    selection = hfxling.select(*text, languages=LANGUAGES, output=tmp_path, device="cpu", **options)
    names = [each.name for each in selection.candidates]
    assert names == ["encoder", "centred", "head", "static", "sparse", "fused"]
    folder = selection.folders["folder"]
    written = SentenceTransformer(str(folder), device="cpu")
    assert type(written[0]).__name__ == "StaticEmbedding"
    assert written.encode_query(SIDES[0][:2]).shape == (2, 16)
    verified = hfxling.verify(folder, device="cpu", cache_dir=tmp_path / "cache")
    assert (verified.faults, verified.equal) == ([], 4)
    assert door_faults(folder, "siamese") == []


def test_ranks_of_the_test_text_are_those_of_the_written_model(further, tmp_path):
    source, target = further[1]
    selection = hfxling.select(*SIDES, languages=LANGUAGES, output=None, test=further[1], choose="sparse")
    selection.save(tmp_path)
    (ranks,) = selection.tested.values()
    encoder = load_encoder(None, str(tmp_path / "model"))
    scores = encoder.encode(source, "zh", "query") @ encoder.encode(target, "vi", "document").T
    assert (ranks[0] == 1).sum() == (scores.toarray().argmax(1) == np.arange(31)).sum()


@pytest.mark.parametrize(("name", "first"), [("sparse", "SparseEncoder"), ("static", "SentenceTransformer")])
def test_the_card_says_what_was_measured_and_how_that_is_loaded(tmp_path, name, first):
    hfxling.select(*SIDES, languages=LANGUAGES, output=tmp_path, choose=name)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert f"| {name}, candidates 12 |" in card
    assert f"import {first}\n" in card.split("```python\n")[1]
    assert "num_train_epochs" not in card
    assert "_checkpointing" not in card


def test_nothing_learns_from_the_pairs_that_are_left_out(everything):
    assert sorted(np.concatenate(everything.folds).tolist()) == list(range(60))
    held = everything.folds[0]
    kept = np.setdiff1d(np.arange(60), held)
    competitors = everything._fitted.competitors
    head = list(competitors.heads.values())[-1]
    head.fit(kept)
    before = head.embed(0, kept)
    is_held = np.isin(np.arange(60), held)[:, None]
    head.sides = tuple(np.where(is_held, 7, side) for side in head.sides)
    head.fit(kept)
    np.testing.assert_array_equal(head.embed(0, kept), before)
    competitors.links.compete(0, kept, held)
    alone = hfxling.fit_lexical(*([side[row] for row in kept] for side in SIDES), LANGUAGES)
    found = competitors.links.model.state_dict()
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in alone.state_dict().items()
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"languages": ("zh",)}, "languages=('zh',): give the codes of two languages"),
        ({"languages": ("zh", "zh")}, "give the codes of two languages"),
        ({"only": ["heads"]}, "only='heads' is not one of centred, head, static"),
        ({"only": ["static"], "choose": "sparse"}, "choose='sparse' does not compete"),
        ({"choose": "head"}, "'head' needs an encoder: give a model"),
        ({"choose": "best"}, "choose='best' is not one of centred, head"),
        ({"model": "no/where"}, "model='no/where'"),
        ({"model": SentenceTransformer(modules=[Normalize()])}, "a loaded SentenceTransformer cannot compete"),
        ({"minutes": 0}, "minutes=0: give more than 0"),
        ({"choose": "finetuned"}, "'finetuned' needs an encoder"),
        ({"licence": "whatever!"}, "licence='whatever!'"),
    ],
)
def test_mistakes_are_one_line(text, tmp_path, monkeypatch, refusal, options, message):
    monkeypatch.chdir(tmp_path)
    options = {"languages": LANGUAGES, "output": tmp_path / "out"} | options
    assert message in refusal(lambda: hfxling.select(*text, **options))
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_in_one_line(text, tmp_path, refusal):
    words = ["fit", *text, "--output", str(tmp_path / "out")]
    assert "choose" in refusal(lambda: main([*words, "--languages", "zh", "vi", "--choose", "best"]))
    assert "languages" in refusal(lambda: main([*words, "--languages", "zh"]))
    assert not (tmp_path / "out").exists()


def test_an_encoder_without_its_tokenizer_is_refused(tiny_bert, text, tmp_path, refusal):
    bare = tmp_path / "bare"
    AutoModel.from_pretrained(tiny_bert).save_pretrained(bare)
    options = {"languages": LANGUAGES, "model": bare, "output": tmp_path / "out", "cache_dir": tmp_path / "cache"}
    assert "has no tokenizer: save the one" in refusal(lambda: hfxling.select(*text, **options))
    assert not (tmp_path / "out").exists()


def test_a_prompt_that_the_texts_have_already_is_refused(e5_like, tmp_path, refusal):
    prompted = [[f"query: {line}" for line in side] for side in SIDES]
    options = {"languages": LANGUAGES, "model": e5_like, "output": tmp_path / "out", "cache_dir": tmp_path / "cache"}
    message = refusal(lambda: hfxling.select(*prompted, **options))
    assert "60 of 60 texts already begin with the prompt 'query: '" in message
    assert hfxling.select(*prompted, **options, prompt="", only=["head"]).folders


def test_what_is_written_in_place_of_the_winner_is_told(text, tmp_path):
    selection = hfxling.select(*text, languages=LANGUAGES, output=None, progress=False)
    (other,) = {"static", "sparse"} - {selection.winner.name}
    selection.save(tmp_path, other)
    assert f"{other}, as asked for, is written:" in selection.table()
    assert ("it needs to know the language" in selection.table()) == (other == "sparse")


def test_test_pairs_count_once(caplog):
    test = [side[-30:] for side in SIDES]
    twice = [side + side[:10] for side in test]
    tables = []
    for given in (test, twice):
        kinds = {"languages": LANGUAGES, "only": ["static"], "output": None}
        selection = hfxling.select(*SIDES, test=given, progress=False, **kinds)
        tables.append(selection.candidates[0].precision)
    assert tables[0] == tables[1]
    assert "10 of 40 test pairs repeat an earlier one and are left out" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seed": -1}, "seed=-1"), ({"repo": "zh-vi"}, "repo='zh-vi'"), ({"seed": "x"}, "seed='x'")],
)
def test_what_would_stand_in_the_card_is_checked(options, message):
    with pytest.raises(ValueError, match=message):
        hfxling.select(*SIDES, languages=LANGUAGES, output=None, **options)


def test_too_few_pairs_are_refused(tmp_path, refusal):
    lines = {"zh": "我爱你\n", "vi": "tôi\n"}
    for lang, line in lines.items():
        (tmp_path / f"my.{lang}").write_text(line, encoding="utf-8")
    files = [str(tmp_path / f"my.{lang}") for lang in lines]
    message = "1 pairs are too few; give 13 or more"
    assert message in refusal(lambda: hfxling.select(*files, languages=LANGUAGES, output=tmp_path / "out"))
    assert message in refusal(lambda: hfxling.select(["我爱你"], ["tôi"], languages=LANGUAGES, output=None))


def test_a_folder_of_somebody_else_stays(text, tmp_path, refusal):
    (tmp_path / "lexical" / "model").mkdir(parents=True)
    notes = Path(tmp_path / "lexical" / "model" / "notes.txt")
    notes.write_text("mine")
    assert "did not write" in refusal(lambda: hfxling.select(*text, languages=LANGUAGES, output=tmp_path))
    assert notes.read_text() == "mine"


def test_links_of_a_model_that_is_replaced_do_not_stay(text, tiny_bert, tmp_path):
    options = {"languages": LANGUAGES, "model": str(tiny_bert), "cache_dir": tmp_path / "cache", "progress": False}
    hfxling.select(*SIDES, only=["fused"], choose="fused", output=tmp_path / "out", **options)
    assert (tmp_path / "out" / "lexical" / "model").is_dir()
    (tmp_path / "out" / "lexical" / "notes.txt").write_text("mine")
    hfxling.select(*SIDES, only=["centred"], output=tmp_path / "out", **options)
    assert not (tmp_path / "out" / "lexical" / "model").exists()
    assert (tmp_path / "out" / "lexical" / "notes.txt").is_file()
