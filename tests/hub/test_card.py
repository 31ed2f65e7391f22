import ast
import json
import re
from dataclasses import asdict, replace
from importlib import import_module

import methods as kinds
import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import EvalResult as HubResult
from huggingface_hub import ModelCard, ModelCardData, parse_eval_result_entries
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from hfxling.evaluation.results import EvalResult
from hfxling.hub.card import CardInfo, lines_sentence, render_card
from hfxling.hub.folder import publish
from hfxling.hub.index import eval_results_file, folder_tags, told_apart
from hfxling.hub.writing import write_static
from hfxling.methods import METHODS, method
from hfxling.methods.dap.card import summary as dap_summary

INFO = CardInfo(
    repo_id="me/zh-vi-sf",
    method="siamese",
    summary="A linear head on one frozen layer.",
    citation="@article{huang2023, author = {Yu, Zhengtao}}",
    base_model="bert-base-multilingual-cased",
    languages=["zh", "vi"],
    licence="apache-2.0",
    train_data=[
        {
            "name": "news",
            "pairs": 1543,
            "revision": "0123456789abcdef",
            "licence": "cc-by-sa-4.0",
            "dropped": {"duplicate": 17, "too short": 29},
            "leaks": 11,
            "hub_id": "someone/news",
        }
    ],
    intended_use="Finding translations of Chinese sentences in Vietnamese text.",
    limits=["Trained on news only."],
)


def row(value, stage, *, metric="P@1", direction="zh->vi", low=None, high=None, unit="%", **settings):
    settings = {"method": "cosine", "centering": "none", "stage": stage, **settings}
    return EvalResult(metric, value, 454, "ntrex", "test", direction, unit, low, high, "abc123", settings=settings)


BEFORE = row(24.4, "before", low=20.5, high=28.4)
AFTER = row(33.3, "after", low=29.1, high=37.6)


def paired(low, high):
    return {"difference": (low + high) / 2, "low": low, "high": high, "p_value": 0.0123}


def body(card):
    return ModelCard(card).text


def table_after(card, heading):
    lines = body(card).split(f"## {heading}\n")[1].split("\n## ")[0].split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_card_parses_and_names_everything_the_hub_wants():
    data = ModelCard(render_card([BEFORE, AFTER], INFO)).data
    assert (data.license, data.language, data.base_model) == ("apache-2.0", ["zh", "vi"], INFO.base_model)
    assert (data.library_name, data.pipeline_tag) == ("sentence-transformers", "sentence-similarity")
    assert data.datasets == ["someone/news"]
    assert {"sentence-transformers", "hfxling-siamese"} <= set(data.tags)


def test_the_widget_compares_sentences_of_the_models_languages():
    (widget,) = ModelCard(render_card([AFTER], INFO)).data.widget
    assert widget == {"source_sentence": "今天下雨。", "sentences": ["Hôm nay trời mưa.", "Nhà ga ở đâu?"]}
    own = {"km": ["ថ្ងៃនេះភ្លៀង", "តើផ្សារនៅឯណា"], "my": ["ဒီနေ့ မိုးရွာတယ်", "ဈေးက ဘယ်မှာလဲ"]}
    card = render_card([AFTER], replace(INFO, languages=["km", "my"], examples=own))
    (widget,) = ModelCard(card).data.widget
    assert widget == {"source_sentence": own["km"][0], "sentences": own["my"]}
    assert f'encode_query(["{own["km"][0]}"])' in card


def test_the_model_index_holds_the_trained_models_first_row_a_direction_of_data_that_the_hub_has():
    after = [AFTER, row(55.5, "after", direction="vi->zh")]
    others = [row(0.5253, "after", metric="Pearson", unit=""), replace(AFTER, dataset="my/file")]
    data = ModelCard(render_card([BEFORE, *after, *others], INFO)).data
    assert {entry.dataset_type for entry in data.eval_results} == {"mteb/NTREX"}
    assert (data.base_model, data.base_model_relation) == (INFO.base_model, "finetune")
    adapter = ModelCard(render_card([AFTER], replace(INFO, relation="adapter"))).data
    assert adapter.base_model_relation == "adapter"
    assert data.model_name == "zh-vi-sf"
    entries = [
        (e.metric_type, e.metric_value, e.dataset_name, e.dataset_config, e.dataset_split, e.dataset_revision)
        for e in data.eval_results
    ]
    # a direction is no configuration of the data set, and the hash of a text no commit
    expected = [(r.metric, r.value, r.dataset, None, r.split, None) for r in after]
    assert sorted(entries) == sorted(expected)
    first = next(e for e in data.eval_results if e.metric_value == 33.3)
    assert first.metric_args == {"n": 454, "low": 29.1, "high": 37.6, "method": "cosine", "centering": "none"}


def test_the_header_is_plain_yaml_whatever_numbers_are_given():
    card = render_card([replace(AFTER, value=np.float64(33.3), low=np.float32(29.5), n=np.int64(454))], INFO)
    metric = yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"][0]["metrics"][0]
    assert (metric["value"], metric["args"]["low"], metric["args"]["n"]) == (33.3, 29.5, 454)


def test_the_table_shows_both_stages_on_one_line():
    header, _, line = table_after(render_card([BEFORE, AFTER], INFO), "Results")
    assert header == ["Dataset", "Split", "Direction", "Setting", "Metric", "n", "Before", "After", "Change"]
    assert line[:6] == ["ntrex", "test", "zh->vi", "cosine, centering none", "P@1 (%)", "454"]
    assert line[6:8] == ["24.4 [20.5, 28.4]", "33.3 [29.1, 37.6]"]


def test_every_number_of_the_table_comes_from_a_row():
    rows = [BEFORE, replace(AFTER, settings={**AFTER.settings, "paired": paired(4.2, 13.8)})]
    numbers = re.findall(r"\d+\.\d+", body(render_card(rows, INFO)).split("## How to load")[0])
    assert set(numbers) == {"24.4", "20.5", "28.4", "33.3", "29.1", "37.6", "9.0", "4.2", "13.8", "0.012"}


@pytest.mark.parametrize("change", [{"value": 34.9}, {"low": 30.3}, {"n": 821}, {"dataset": "other"}, {"split": "dev"}])
def test_a_changed_row_changes_the_table(change):
    changed = table_after(render_card([replace(AFTER, **change)], INFO), "Results")
    assert str(next(iter(change.values()))) in " ".join(changed[2])
    assert changed != table_after(render_card([AFTER], INFO), "Results")


def test_rows_under_different_centering_stay_apart():
    rows = [BEFORE, AFTER, row(27.8, "before", centering="corpus"), row(31.9, "after", centering="corpus")]
    table = table_after(render_card(rows, INFO), "Results")
    assert [line[3] for line in table[2:]] == ["cosine, centering none", "cosine, centering corpus"]


@pytest.mark.parametrize(
    ("before", "after", "sentence", "change"),
    [
        (BEFORE, AFTER, "Training made the model better in every comparison", "intervals apart: better"),
        (BEFORE, replace(AFTER, low=28.0), "not shown to be better than the encoder", "**not shown to be better**"),
        (BEFORE, replace(AFTER, low=None), "not shown to be better than the encoder", "no interval"),
        (AFTER, BEFORE, "not better than the encoder it starts from, and worse", "**worse**"),
        (
            BEFORE,
            row(33.3, "after", low=20.0, high=40.0, paired=paired(4.2, 13.8)),
            "Training made the model better",
            "+9.0 [4.2, 13.8], p = 0.012: better",
        ),
        (
            BEFORE,
            row(33.3, "after", low=29.1, high=37.6, paired=paired(-1.0, 3.0)),
            "not shown to be better than the encoder",
            "+1.0 [-1.0, 3.0], p = 0.012: **not shown",
        ),
        (
            row(0.3, "before", metric="AER", unit="", low=0.28, high=0.32),
            row(0.2, "after", metric="AER", unit="", low=0.18, high=0.22),
            "Training made the model better",
            "intervals apart: better",
        ),
    ],
)
def test_the_card_says_honestly_whether_training_helped(before, after, sentence, change):
    rows = [
        replace(before, settings={**before.settings, "stage": "before"}),
        replace(after, settings={**after.settings, "stage": "after"}),
    ]
    card = render_card(rows, INFO)
    assert sentence in body(card)
    assert change in table_after(card, "Results")[2][-1]


def test_one_failure_among_successes_is_not_hidden():
    worse = [
        row(40.0, "before", direction="vi->zh", low=39, high=41),
        row(30.0, "after", direction="vi->zh", low=29, high=31),
    ]
    assert "did not make the model better in every comparison" in body(render_card([BEFORE, AFTER, *worse], INFO))


def test_without_a_baseline_no_improvement_is_claimed():
    assert "claims no improvement" in body(render_card([AFTER], INFO))


def test_without_results_the_card_says_so():
    card = render_card([], INFO)
    assert "has not been evaluated" in body(card)
    assert "model-index" not in card
    assert "|" not in body(card).split("## Results")[1].split("## ")[0]


def test_two_rows_for_one_place_are_refused():
    with pytest.raises(ValueError, match='Two rows "after" for P@1 zh->vi on ntrex test'):
        render_card([AFTER, replace(AFTER, value=1.0, seed=2)], INFO)


def test_an_unknown_stage_is_refused():
    with pytest.raises(ValueError, match="stage 'middle'"):
        render_card([row(1.0, "middle")], INFO)


def test_training_data_shows_what_was_removed():
    line = table_after(render_card([AFTER], INFO), "Training data")[2]
    assert line == ["news", "0123456789abcdef", "cc-by-sa-4.0", "1543", "duplicate 17, too short 29", "11"]


@pytest.mark.parametrize("field", ["intended_use", "limits"])
@pytest.mark.parametrize("text", ["Reaches 99 % on news.", "Scores 0.913 on news."])
def test_a_score_without_a_row_is_refused_in_prose(field, text):
    with pytest.raises(ValueError, match="is in no result row"):
        render_card([AFTER], replace(INFO, **{field: text if field == "intended_use" else [text]}))


def test_a_score_with_a_row_may_stand_in_prose():
    limit = "Two of three sentences are missed: P@1 is 33.3 % on news of at most 128 tokens."
    assert limit in body(render_card([AFTER], replace(INFO, limits=[limit])))


@pytest.mark.parametrize("languages", [["zh", "vi"], ["lo", "th", "zh"], ["de", "fr"]])
def test_the_loading_snippets_are_python_for_this_repository(languages):
    snippets = re.findall(r"```python\n(.*?)```", render_card([AFTER], replace(INFO, languages=languages)), re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        calls = [node for node in ast.walk(ast.parse(snippet)) if isinstance(node, ast.Call)]
        assert any(getattr(call.args[0], "value", None) == "me/zh-vi-sf" for call in calls if call.args)
    assert 'SentenceTransformer("me/zh-vi-sf")' in snippets[0]
    assert "trust_remote_code" not in snippets[0]
    assert "trust_remote_code=True" in snippets[1]
    assert "runs the code of this repository, which needs transformers 5." in render_card([AFTER], INFO)


def test_given_snippets_replace_the_standard_ones():
    card = render_card([AFTER], replace(INFO, loading={"Per language": 'model.encode(texts, task="zh")'}))
    assert re.findall(r"```python\n(.*?)\n```", card, re.DOTALL) == ['model.encode(texts, task="zh")']
    assert "needs transformers" not in card


def test_the_configuration_is_yaml_without_secrets(tmp_path):
    configuration = {
        "learning_rate": 5e-6,
        "layers": (6, 7),
        "out": tmp_path,
        "hub_token": "s3cret",
        "key": "hf_s3cret",
    }
    card = render_card([AFTER], replace(INFO, configuration=configuration))
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", card, re.DOTALL).group(1))
    assert shown == {"learning_rate": 5e-6, "layers": [6, 7], "out": str(tmp_path), "key": "TOKEN"}
    assert "s3cret" not in card


def test_command_coverage_and_citation_are_shown():
    command = "accelerate launch recipes/siamese.py --config recipes/configs/siamese/quickstart.yaml"
    card = render_card([AFTER], replace(INFO, training_command=command, coverage="All of lo is covered."))
    for text in (command, "All of lo is covered.", "@article{huang2023", "Zhengtao"):
        assert text in body(card)


def test_a_record_gives_the_same_card():
    assert CardInfo.from_record(asdict(INFO)) == INFO


def test_a_local_encoder_is_named_but_not_linked(tmp_path):
    card = render_card([AFTER], replace(INFO, base_model=str(tmp_path / "mini-xlm")))
    assert "Built on `mini-xlm`" in card
    assert str(tmp_path) not in card
    assert ModelCard(card).data.base_model is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"licence": ""}, "licence=''"),
        ({"licence": None}, "licence=None"),
        ({"licence": "CC BY 4.0"}, "cc-by-sa-4.0"),
        ({"method": ""}, "method is empty"),
        ({"citation": ""}, "citation is empty"),
        ({"limits": []}, "limits is empty"),
        ({"languages": ()}, "languages is empty"),
        ({"train_data": [{"name": "news"}]}, "needs name and pairs"),
        ({"train_data": [{"name": "news", "pairs": 3, "license": "mit"}]}, "may also have"),
    ],
)
def test_a_card_that_leaves_something_unsaid_is_refused(change, message):
    with pytest.raises(ValueError, match=message) as error:
        replace(INFO, **change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_card(name):
    """The prose of each method's own card module, with the repository's name in every snippet."""
    package = method(name)
    told = import_module(f"{package.__name__}.card")
    card = render_card([AFTER], replace(INFO, method=name, summary=told.SUMMARY, citation=told.CITATION))
    assert told.SUMMARY in card
    assert told.CITATION in card
    assert all(limit for limit in told.LIMITS)


@pytest.mark.parametrize(
    ("objective", "rank", "told"),
    [
        ("tr", 8, "A dual encoder trained with translation ranking. Low-rank adapters (LoRA) of rank 8 were trained;"),
        ("tr+rtl", 0, "trained with translation ranking and representation translation learning."),
        (
            "tr+rtl+tlm",
            0,
            "translation ranking, representation translation learning and translation language modelling.",
        ),
    ],
)
def test_a_dual_encoder_is_summed_up_by_what_it_was_trained_with(objective, rank, told):
    assert told in dap_summary(objective, rank)


def test_the_hub_library_loads_the_card_from_a_file(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(render_card([BEFORE, AFTER], INFO), encoding="utf-8")
    assert ModelCard.load(path).data.eval_results[0].metric_value == 33.3


def test_short_vectors_have_a_table_of_their_own_and_no_line_among_the_results():
    rows = [
        row(
            value, "after", direction=way, dimensions=size, precision=kind, **({"range": 0.4} if kind == "int8" else {})
        )
        for size in (64, 768)
        for kind, value in (("float32", 31.0), ("int8", 30.5), ("binary", 12.25))
        for way in ("zh->vi", "vi->zh")
    ]
    card = render_card([BEFORE, AFTER, *rows], INFO)
    header, _, *lines = table_after(card, "Short vectors")
    assert header == ["Dataset", "Split", "Direction", "Components", "float32", "int8", "binary", "int8 range"]
    assert lines[0] == ["ntrex", "test", "zh->vi", "64", "31.0", "30.5", "12.2", "0.4"]
    assert [line[2:4] for line in lines] == [[way, size] for size in ("64", "768") for way in ("zh->vi", "vi->zh")]
    assert len(table_after(card, "Results")) == len(table_after(render_card([BEFORE, AFTER], INFO), "Results"))
    assert "Short vectors" not in render_card([BEFORE, AFTER], INFO)


def test_the_limits_say_what_short_vectors_lose():
    rows = [
        row(value, "after", direction=way, dimensions=size, precision="float32")
        for size, values in ((256, (80.8, 82.8)), (1024, (81.5, 86.3)))
        for way, value in zip(("lo->zh", "zh->lo"), values)
    ]
    limits = body(render_card([AFTER, *rows], INFO)).split("## Limits")[1]
    told = "- The first 256 of 1024 components (`truncate_dim=256`) find at worst 82.8 % in place of 86.3 % (zh->lo)."
    assert told in limits
    assert "truncate_dim" not in render_card([AFTER], INFO)
    assert "lose was not measured" in render_card([AFTER], replace(INFO, tags=["dense", "static-embeddings"]))


def test_results_beside_benchmarks_are_of_data_that_was_not_learnt_from():
    rows = [BEFORE, replace(AFTER, revision="0" * 40)]
    (entry,) = parse_eval_result_entries(yaml.safe_load(eval_results_file(rows, [{"name": "my/file"}])))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("mteb/NTREX", "zh-vi-test", AFTER.value)
    assert entry.dataset_revision == "0" * 40
    assert f"n = {AFTER.n}" in entry.notes
    assert eval_results_file(rows, [{"name": "NTREX-128"}]) is None
    assert eval_results_file([BEFORE], []) is None


@pytest.mark.parametrize(
    ("configuration", "sentence"),
    [
        ({}, ""),
        ({"train_data": ["my.tsv"]}, ""),
        ({"train_data": ["a.tsv@1-9"]}, "Learnt from lines 1-9."),
        (
            {"train_data": ["a.tsv@1-9"], "test_data": ["a.tsv@10-12"]},
            "Learnt from lines 1-9, tested on lines 10-12 of the same text.",
        ),
        (
            {"train_data": ["a.tsv@1-9"], "test_data": ["b.tsv@1-5"]},
            "Learnt from lines 1-9, tested on lines 1-5 of other text.",
        ),
    ],
)
def test_the_card_says_which_lines_were_learnt_from(configuration, sentence):
    assert lines_sentence(configuration) == sentence


def test_a_folder_has_tags_by_the_vectors_that_it_gives(tmp_path):
    assert folder_tags(tmp_path) == []
    modules = [{"type": "sentence_transformers.models.StaticEmbedding"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert folder_tags(tmp_path) == ["dense", "static-embeddings"]
    (tmp_path / "sparse").mkdir()
    (tmp_path / "sparse" / "modules.json").write_text("[]", encoding="utf-8")
    assert folder_tags(tmp_path) == ["dense", "static-embeddings", "sparse-encoder", "sparse"]


def test_static_vectors_of_a_table_a_language_have_their_tag_too(tmp_path):
    tokenizers = {}
    for lang, word in (("zh", "雨"), ("vi", "mưa")):
        tokenizers[lang] = Tokenizer(WordLevel({"[UNK]": 0, word: 1}, unk_token="[UNK]"))
    write_static(dict.fromkeys(tokenizers, torch.ones(2, 3)), tokenizers, tmp_path)
    assert (tmp_path / "router_config.json").is_file()
    assert folder_tags(tmp_path) == ["dense", "static-embeddings"]


def test_a_folder_of_the_hubs_cache_is_called_by_its_id():
    folder = f"/somewhere/hub/models--org--tiny-encoder/snapshots/{'0' * 40}"
    assert told_apart(folder) == "org/tiny-encoder"
    assert told_apart("/somewhere/models/tiny-encoder") == "/somewhere/models/tiny-encoder"


def test_a_clone_of_the_hub_is_called_by_its_id(tmp_path):
    settings = tmp_path / "encoder" / ".git" / "config"
    settings.parent.mkdir(parents=True)
    for url in ("https://huggingface.co/org/tiny-encoder", "git@huggingface.co:org/tiny-encoder.git"):
        settings.write_text(f'[remote "origin"]\n\turl = {url}\n\tfetch = +refs/*\n', encoding="utf-8")
        assert told_apart(str(tmp_path / "encoder")) == "org/tiny-encoder"
    settings.write_text('[remote "origin"]\n\turl = https://example.org/huggingface.co/x/y\n', encoding="utf-8")
    assert told_apart(str(tmp_path / "encoder")) == str(tmp_path / "encoder")


def test_a_fused_model_names_its_lexical_model_and_says_what_was_measured():
    before, after = replace(BEFORE, settings=BEFORE.settings | {"row": "encoder"}), row(99.0, "after", row="fused")
    card = render_card([before, after], replace(INFO, lexical="me/zh-vi-sf-lexical"))
    assert "[me/zh-vi-sf-lexical](https://huggingface.co/me/zh-vi-sf-lexical)" in card
    assert '"After" is this model and its lexical model together' in card
    assert '"lexical": "me/zh-vi-sf-lexical"' in card
    header, _, line = table_after(card, "Results")  # before and after are one line
    assert line[header.index("Setting")] == "cosine, centering none, fused", "what the score belongs to"
    assert "not both measured" not in card
    alone = render_card([before, after], replace(INFO, method="lexical"))
    assert '"After" is this lexical model and the dense one that it was made for together' in alone
    named = render_card([before, after], replace(INFO, method="lexical", dense="me/zh-vi-sf"))
    assert "cosines of the dense model [me/zh-vi-sf](https://huggingface.co/me/zh-vi-sf) add up" in named


KINDS = {
    ("siamese", "paper"): {"dense"},
    ("siamese", "per language"): {"dense"},
    ("siamese", "two layers, shared"): {"dense"},
    ("dap", "bert"): {"dense"},
    ("disentangler", "prompt"): {"dense"},
    ("aligner", "lo and zh"): {"dense", "static-embeddings"},
    ("lexical", "id and vi"): {"dense", "static-embeddings", "sparse-encoder", "sparse"},
    ("lexical", "lo, zh and th"): {"dense", "static-embeddings", "sparse-encoder", "sparse"},
}


@pytest.mark.parametrize(("name", "variant"), KINDS)
def test_the_hub_library_reads_the_card_of_every_kind_of_folder(name, variant, tmp_path):
    kind = kinds.METHODS[name]
    model = kind.build(tmp_path / "scratch", **kind.variants[variant])
    rows = [BEFORE, AFTER, row(55.5, "after", direction="vi->zh", low=51.0, high=60.0)]
    card = replace(INFO, method=name, train_data=[{"name": "my/file", "pairs": 9}])
    publish(tmp_path / "model", lambda folder: kind.write(model, tmp_path / "scratch", folder), rows, card, recipe="r")

    data = ModelCard.load(tmp_path / "model" / "README.md").data
    again = ModelCardData(**data.to_dict(), ignore_metadata_errors=False)
    assert again.to_dict() == data.to_dict()
    assert [type(entry) for entry in data.eval_results] == [HubResult, HubResult]
    assert {entry.metric_value for entry in data.eval_results} == {AFTER.value, 55.5}
    assert not any(entry.verified for entry in data.eval_results)
    assert (data.license, data.language, data.library_name) == ("apache-2.0", ["zh", "vi"], "sentence-transformers")
    assert (data.base_model, data.base_model_relation) == (INFO.base_model, "finetune")
    by_vectors = {"dense", "static-embeddings", "sparse-encoder", "sparse"}
    assert by_vectors & {*data.tags} == KINDS[name, variant]
    assert len(data.tags) == len({*data.tags})
    assert f"hfxling-{name}" in data.tags
    assert {*data.widget[0]} == {"source_sentence", "sentences"}
    entries = parse_eval_result_entries(yaml.safe_load(eval_results_file(rows, card.train_data)))
    assert [entry.value for entry in entries] == [AFTER.value, 55.5]


def test_every_method_has_a_kind_of_folder_here():
    assert {name for name, _ in KINDS} == {*METHODS} == {*kinds.METHODS}
