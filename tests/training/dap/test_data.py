"""Text of many languages: templates, languages that are missing, filters, caps, leaks, streams."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from tiny_models import tiny_tokenizer
from transformers import Trainer, TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.data.parallel import load_parallel
from hfxling.training.dap.arguments import MultiCorpusArguments, Source
from hfxling.training.dap.collators import PairCollator
from hfxling.training.dap.data import load_corpora
from hfxling.training.dap.mixing import MixedBatches, StreamBatches, batch_loader

ROOT = Path(__file__).resolve().parents[3]
ENGLISH = ["The rain has stopped at last.", "My brother sells apples.", "Where is the station?", "We eat at noon."]


@pytest.fixture
def anki(tmp_path):
    """English TAB other, for zh and vi."""
    for lang in ("zh", "vi"):
        lines = [f"{english}\t{lang} text {i}" for i, english in enumerate(ENGLISH)]
        (tmp_path / f"en-{lang}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{tmp_path}/en-{{lang}}.tsv#1,0"


@pytest.fixture
def aligned(tmp_path):
    """Line-aligned files of en, vi and th."""
    for lang in ("en", "vi", "th"):
        (tmp_path / f"{lang}.txt").write_text("".join(f"{lang} line {i}\n" for i in range(10)), encoding="utf-8")
    return f"{tmp_path}/{{lang}}.txt+{tmp_path}/{{pivot}}.txt@3-8"


def build(languages, *templates, **settings):
    return MultiCorpusArguments(languages=languages.split(), train_data=list(templates), **settings)


def test_sources_of_different_form_are_joined(anki, aligned):
    corpus = load_corpora(build("zh vi th", anki, aligned))
    assert corpus.languages == ["zh", "vi", "th"]
    zh, vi, th = corpus.train
    assert zh[0] == {"source": "zh text 0", "target": ENGLISH[0], "source_lang": "zh", "target_lang": "en"}
    assert [len(zh), len(vi), len(th)] == [4, 10, 6]
    assert (vi[4]["source"], vi[4]["target"]) == ("vi line 2", "en line 2")
    assert set(vi["target_lang"]) == set(th["target_lang"]) == {"en"}
    folder = anki.rpartition("/")[0]
    assert [report.missing for report in corpus.reports] == [
        [f"{folder}/zh.txt+{folder}/en.txt"],
        [],
        [f"{folder}/en-th.tsv"],
    ]
    assert [(report.read, report.used) for report in corpus.reports] == [(4, 4), (10, 10), (6, 6)]
    np.testing.assert_allclose(corpus.weights(build("zh vi th", anki)), [0.2, 0.5, 0.3])


@pytest.mark.parametrize(
    ("template", "lang", "expected"),
    [
        ("org/set:{pair}", "zh", ("org/set:en-zh", None, (None, None))),
        ("org/set:{pair}", "bn", ("org/set:bn-en", None, (None, None))),
        ("a/{lang}.txt+a/{pivot}.txt@1-1543", "vi", ("a/vi.txt+a/en.txt", "1-1543", (None, None))),
        ("a/{pivot}-{lang}.tsv.gz@2-9#1,0", "vi", ("a/en-vi.tsv.gz", "2-9", ("1", "0"))),
        ("org/x#text_{lang},text_{pivot}", "vi", ("org/x", None, ("text_vi", "text_en"))),
        ("a#b/{lang}.tsv", "vi", ("a#b/vi.tsv", None, (None, None))),
    ],
)
def test_templates(template, lang, expected):
    assert Source.parse(template).fill(lang, "en") == expected


@pytest.mark.parametrize("streaming", [False, True])
def test_hub_templates(monkeypatch, streaming):
    def load_dataset(name, config, *, split, revision, streaming):
        asked.append((name, config, split, streaming))
        if config == "en-th":
            raise ValueError("BuilderConfig 'en-th' not found. Available: ['bn-en', 'en-zh']")
        rows = datasets.Dataset.from_dict({"english": ["one", "two"], "non_english": ["1", "2"], "extra": [0, 0]})
        return rows.to_iterable_dataset() if streaming else rows

    asked = []
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    corpus = load_corpora(build("zh bn th", "org/talks:{pair}", "sample", streaming=streaming, train_split="dev"))
    assert asked == [("org/talks", config, "dev", streaming) for config in ("en-zh", "bn-en", "en-th")]
    assert [report.missing for report in corpus.reports] == [[], ["sample"], ["org/talks:en-th"]]
    assert corpus.name == "org/talks+sample"
    assert list(corpus.train[1]) == [
        {"source": number, "target": word, "source_lang": "bn", "target_lang": "en"}
        for number, word in (("1", "one"), ("2", "two"))
    ]


def test_filters_and_cap(tmp_path):
    rows = [("một hai", "one two"), ("một hai", "One  two"), ("same", "same"), ("ba", "three"), ("tư", "four")]
    (tmp_path / "vi.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    template = f"{tmp_path}/{{lang}}.tsv"
    corpus = load_corpora(build("vi", template))
    report = corpus.reports[0]
    assert (report.read, report.dropped["duplicate"], report.dropped["identical"], report.used) == (5, 1, 1, 3)
    (entry,) = corpus.card_entries("CC0")
    assert (entry["pairs"], entry["licence"], entry["dropped"]["duplicate"]) == (3, "CC0", 1)
    assert "leaks" not in entry
    assert [entry] == load_corpora(build("vi", template)).card_entries("CC0")
    capped = load_corpora(build("vi", template, max_pairs=2))
    assert capped.reports[0].used == len(capped.train[0]) == 2
    assert capped.card_entries(None)[0]["revision"] != entry["revision"]
    with pytest.raises(ValueError, match=r"language 'vi': no training pair is left of 5 \(dropped: .*'too_short': 4"):
        load_corpora(build("vi", template, min_words=3))


def test_cap_is_a_sample_over_the_whole_set(tmp_path):
    (tmp_path / "vi.tsv").write_text("".join(f"vi {i}\ten {i}\n" for i in range(1000)), encoding="utf-8")
    template = f"{tmp_path}/{{lang}}.tsv"
    numbers = [int(text[3:]) for text in load_corpora(build("vi", template, max_pairs=100)).train[0]["source"]]
    assert len(set(numbers)) == 100
    assert 300 < np.mean(numbers) < 700  # the first 100 would give 50
    streamed = load_corpora(build("vi", template, max_pairs=100, streaming=True)).train[0]
    assert [int(row["source"][3:]) for row in streamed] == list(range(100))


@pytest.mark.parametrize(("keep_leaks", "used", "leaks"), [(False, [2, 4], [2, None]), (True, [4, 4], [None, None])])
def test_leaks_are_dropped_language_by_language(anki, keep_leaks, used, leaks):
    test = datasets.Dataset.from_dict({"source": ["x", "y"], "target": [ENGLISH[1], ENGLISH[0]]})
    corpus = load_corpora(build("zh vi", anki, keep_leaks=keep_leaks), {"zh": test})
    assert [report.used for report in corpus.reports] == used
    assert [report.leaks for report in corpus.reports] == leaks
    assert [len(dataset) for dataset in corpus.train] == used


def test_streams_of_several_sources_are_read_in_full(anki, aligned):
    corpus = load_corpora(build("vi th", anki, aligned, streaming=True))
    vi = list(corpus.train[0])
    assert Counter(row["source"].split()[1] for row in vi) == {"text": 4, "line": 6}
    assert corpus.reports[0].used is None
    assert corpus.card_entries(None)[0] == {"name": f"{corpus.name}, vi", "pairs": "streamed"}
    with pytest.warns(UserWarning, match="all languages weigh the same"):
        assert corpus.weights(build("vi th", anki, streaming=True)).tolist() == [0.5, 0.5]
    sized = build("vi th", anki, streaming=True, sizes=[3000, 1000], max_pairs=2000)
    np.testing.assert_allclose(corpus.weights(sized), [2 / 3, 1 / 3])


@pytest.mark.parametrize("streaming", [False, True])
def test_corpora_make_batches(anki, aligned, streaming):
    args = build("zh vi th", anki, aligned, streaming=streaming, sizes=[1, 1, 1], mixing="temperature")
    corpus = load_corpora(args)
    kind = StreamBatches if streaming else MixedBatches
    batches = kind(corpus.train, corpus.weights(args), batch_size=8, batches=12, bucket=args.bucket)
    rows = [row for _, batch in zip(range(12), batches) for row in batch]
    assert len(rows) == 96
    assert {row["source_lang"] for row in rows} == {"zh", "vi", "th"}
    again = kind(load_corpora(args).train, corpus.weights(args), batch_size=8, batches=12, bucket=args.bucket)
    assert [row for _, batch in zip(range(12), again) for row in batch] == rows


class Recorder(torch.nn.Module):
    """Remembers the batches it was trained on."""

    def __init__(self):
        super().__init__()
        self.weight, self.seen = torch.nn.Parameter(torch.ones(1)), []

    def forward(self, source, target, language):
        self.seen.append((source["input_ids"].tolist(), target["input_ids"].tolist(), language.tolist()))
        return {"loss": self.weight.square().sum()}


def train(corpus, kind, folder, resume=None):
    """Train to step 7 with two batches a step, checkpoints at 3 and 6."""
    batches = kind(corpus.train, [1, 1], batch_size=4, batches=14, bucket=4)
    loader = batch_loader(batches, PairCollator(tiny_tokenizer(), 32, languages=corpus.languages))

    class OneStream(Trainer):
        def get_train_dataloader(self):
            return loader

    model = Recorder()
    settings = {"max_steps": 7, "save_steps": 3, "gradient_accumulation_steps": 2, "report_to": "none", "use_cpu": True}
    OneStream(model, TrainingArguments(str(folder), disable_tqdm=True, **settings)).train(resume_from_checkpoint=resume)
    return model.seen


@pytest.mark.parametrize("kind", [MixedBatches, StreamBatches])
def test_the_trainer_resumes_in_the_middle(aligned, tmp_path, kind):
    corpus = load_corpora(build("vi th", aligned, streaming=kind is StreamBatches))
    whole = train(corpus, kind, tmp_path / "run")
    assert len(whole) == 14
    assert train(corpus, kind, tmp_path / "run", str(tmp_path / "run/checkpoint-3")) == whole[6:]


@pytest.mark.parametrize(
    ("languages", "settings", "part"),
    [
        ("zh zh", {}, "zh more than once"),
        ("zh en", {}, "source_lang and target_lang are both 'en'"),
        ("cn", {}, "did you mean zh"),
        ("", {}, "give at least one of each"),
        ("zh", {"mixing": "even"}, "mixing='even' is not one of proportional, temperature"),
        ("zh", {"mixing_temperature": 0.2}, "mixing_temperature=0.2 is below 1"),
        ("zh", {"max_pairs": 0}, "max_pairs=0 is below 1"),
        ("zh", {"train_data": ["a/{language}.tsv"]}, "{language} is not one of {lang}, {pivot}, {pair}"),
        ("zh", {"train_data": ["a/{lang.tsv"]}, "'a/{lang.tsv': { is not one of"),
        ("zh vi", {"train_data": ["a/zh.tsv"]}, "needs {lang} or {pair}"),
        ("zh vi", {"sizes": [1]}, "give one for each of the 2 languages"),
    ],
)
def test_arguments_are_checked(languages, settings, part):
    with pytest.raises(ValueError) as caught:
        MultiCorpusArguments(**({"languages": languages.split(), "train_data": ["sample"]} | settings))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_no_source_has(anki, tmp_path):
    with pytest.raises(
        ValueError, match=r"language 'th' is in none of the training data \(.*en-th\.tsv, sam/th\.tsv\)"
    ):
        load_corpora(build("zh th", anki, "sam/{lang}.tsv"))
    with pytest.raises(ValueError, match=r"'sam/\{lang\}\.tsv' has none of zh, vi; check its spelling"):
        load_corpora(build("zh vi", anki, "sam/{lang}.tsv"))


def test_other_errors_are_not_taken_for_a_missing_language(anki, monkeypatch):
    with open(anki.replace("{lang}", "vi").partition("#")[0], "a") as file:
        file.write("no second column\n")
    with pytest.raises(ValueError, match=r"en-vi\.tsv, line 5: too few columns"):
        load_corpora(build("zh vi", anki))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("offline")))
    with pytest.raises(ValueError, match=r"could not be loaded \(offline\)"):
        load_corpora(build("zh", "org/x:{pair}", anki))


def test_arguments_parse_from_the_command_line():
    (args,) = parse_arguments(
        [MultiCorpusArguments], ["--languages", "zh", "vi", "--train_data", "a/{lang}.tsv", "sample"]
    )
    assert (args.languages, args.train_data, args.pivot) == (["zh", "vi"], ["a/{lang}.tsv", "sample"], "en")
    assert (args.max_pairs, args.max_length, args.sizes) == (1_000_000, 32, None)


@pytest.mark.slow
def test_missing_configuration_on_a_hub(hub, tmp_path):
    configs = [{"config_name": f"en-{lang}", "data_files": f"{lang}.jsonl"} for lang in ("zh", "vi")]
    files = {"README.md": ("---\n" + json.dumps({"configs": configs}) + "\n---\n").encode()}
    for lang in ("zh", "vi"):
        files[f"{lang}.jsonl"] = json.dumps({"translation": {"en": "one", lang: "1"}}).encode()
    hub.put("org/pairs", files, repo_type="dataset")
    code = """
from hfxling.training.dap.data import MultiCorpusArguments, load_corpora
for streaming in (False, True):
    args = MultiCorpusArguments(languages=["zh", "th"], train_data=["org/pairs:{pair}", "sample"], streaming=streaming)
    print([report.missing for report in load_corpora(args).reports])
"""
    command, env = [sys.executable, "-c", code], hub.env(tmp_path) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[[], ['org/pairs:en-th']]"] * 2, done.stderr[-3000:]


@pytest.mark.shared
def test_real_text(shared_data):
    templates = [
        f"{shared_data}/anki/en-{{lang}}.tsv.gz#1,0",
        f"{shared_data}/ntrex/{{lang}}.txt+{shared_data}/ntrex/en.txt@1-1543",
    ]
    args = build("zh vi", *templates, max_pairs=8000, mixing="temperature")
    tests = {
        lang: load_parallel(
            [shared_data / f"tatoeba/{code}-eng.{code}", shared_data / f"tatoeba/{code}-eng.eng"], lang, "en"
        )
        for lang, code in (("zh", "cmn"), ("vi", "vie"))
    }
    corpus = load_corpora(args, tests)
    zh, vi = corpus.reports
    assert (zh.read, vi.read) == (21209 + 1543, 7400 + 1543)
    assert (zh.used, len(corpus.train[0])) == (8000, 8000)
    assert 0 <= zh.leaks < 0.2 * zh.read
    np.testing.assert_allclose(
        corpus.weights(args), np.array([8000, vi.used]) ** 0.2 / sum(np.array([8000, vi.used]) ** 0.2)
    )
