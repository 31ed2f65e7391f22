"""Text of many languages to batches: weights, mixing, resuming in the middle, padded tensors."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import tiny_tokenizer
from transformers import BertTokenizer, Trainer, TrainingArguments

from hfxling.data.corpus import load_corpus
from hfxling.methods.dap.arguments import DapArguments
from hfxling.methods.dap.data import PairCollator, keep_out, mixed_batches, target_ids, weights
from hfxling.methods.dap.evaluate import HeldOut
from hfxling.methods.dap.mixing import MixedBatches, TokenLengths, batch_loader, mixing_weights

LENGTHS = TokenLengths(tiny_tokenizer(), 32)


@pytest.fixture
def aligned(tmp_path):
    """Line-aligned files of en, vi and th; vi has twice as many."""
    for lang in ("en", "vi", "th"):
        (tmp_path / f"{lang}.txt").write_text("".join(f"{lang} line {i}\n" for i in range(10)), encoding="utf-8")
    (tmp_path / "more.tsv").write_text("".join(f"vi text {i}\ten text {i}\n" for i in range(10)), encoding="utf-8")
    return [f"{tmp_path}/{{source}}.txt+{tmp_path}/{{target}}.txt", f"vi-en={tmp_path}/more.tsv"]


def build(templates, **settings):
    settings = {"objective": "tr"} | settings
    return DapArguments(pairs=["vi-en", "th-en"], train_data=templates, **settings)


def load(args):
    return load_corpus(args, tests={})


def test_weights(aligned):
    args = build(aligned)
    np.testing.assert_allclose(weights(load(args), args), [2 / 3, 1 / 3])
    args = build(aligned, max_train_pairs=10)
    np.testing.assert_allclose(weights(load(args), args), [1 / 2, 1 / 2])
    args = build(aligned, mixing="temperature", mixing_temperature=2.0)
    np.testing.assert_allclose(weights(load(args), args), mixing_weights([20, 10], "temperature", 2.0))


def test_development_pairs_are_no_training_pairs_and_the_same_every_time(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("vi.txt", "th.txt", "en.txt"):
        lines = ["".join(chr(97 + letter) for letter in line) for line in rng.integers(26, size=(20, 12))]
        (tmp_path / name).write_text("\n".join([*lines[:19], lines[0]]) + "\n", encoding="utf-8")
    more = tmp_path / "more.tsv"  # another translation of every vi line
    more.write_text("".join(f"{line}\tother {line}\n" for line in (tmp_path / "vi.txt").read_text().split()[:19]))
    args = build([f"{tmp_path}/{{source}}.txt+{tmp_path}/{{target}}.txt", f"vi-en={more}"])
    corpus, other = load(args), load(args)
    assert [len(pair.train) for pair in corpus.pairs] == [38, 19]
    found = keep_out(corpus, 3)
    for pair, again in zip(corpus.pairs, keep_out(other, 3).values()):
        kept = found[pair.languages[0]]
        assert kept["source"][:] == again["source"][:]
        assert len(kept) == 3
        assert not set(kept["source"]) & set(pair.train["source"])
    assert [len(pair.train) for pair in corpus.pairs] == [38 - 2 * len(set(found["vi"]["source"])), 16]
    assert corpus.pairs[1].dropped["kept out"] == 3
    with pytest.raises(ValueError, match="dev_pairs=20: no pair of th-en is left to train on"):
        keep_out(load(args), 20)


def test_a_batch_is_no_larger_than_the_text(aligned):
    args = build(aligned)
    trainer = SimpleNamespace(gradient_accumulation_steps=1, world_size=1, per_device_train_batch_size=10_000)
    with pytest.raises(
        ValueError, match=r"per_device_train_batch_size=10000: a batch of 10000 is more than the \d+ pairs"
    ):
        mixed_batches(load(args), args, trainer, tiny_tokenizer())


def test_corpora_make_batches(aligned):
    args = build(aligned, mixing="temperature")

    def rows():
        corpus = load(args)
        texts = [pair.train for pair in corpus.pairs]
        how = {"batch_size": 8, "batches": 12, "bucket": args.bucket, "measure": LENGTHS}
        batches = MixedBatches(texts, weights(corpus, args), **how)
        return [row for _, batch in zip(range(12), batches) for row in batch]

    first = rows()
    assert len(first) == 96
    assert {row["source_lang"] for row in first} == {"vi", "th"}
    assert rows() == first


class Recorder(torch.nn.Module):
    """Remembers the batches it was trained on."""

    def __init__(self):
        super().__init__()
        self.weight, self.seen = torch.nn.Parameter(torch.ones(1)), []

    def forward(self, source, target, language):
        self.seen.append((source["input_ids"].tolist(), target["input_ids"].tolist(), language.tolist()))
        return {"loss": self.weight.square().sum()}


def train(corpus, folder, resume=None):
    """Train to step 7 with two batches a step, checkpoints at 3 and 6."""
    texts = [pair.train for pair in corpus.pairs]
    batches = MixedBatches(texts, [1, 1], batch_size=4, batches=14, bucket=4, measure=LENGTHS)
    loader = batch_loader(batches, PairCollator(tiny_tokenizer(), 32, languages=["vi", "th"]))

    class OneStream(Trainer):
        def get_train_dataloader(self):
            return loader

    model = Recorder()
    settings = {"max_steps": 7, "save_steps": 3, "gradient_accumulation_steps": 2, "report_to": "none", "use_cpu": True}
    OneStream(model, TrainingArguments(str(folder), disable_tqdm=True, **settings)).train(resume_from_checkpoint=resume)
    return model.seen


def test_the_trainer_resumes_in_the_middle(aligned, tmp_path):
    corpus = load(build(aligned))
    whole = train(corpus, tmp_path / "run")
    assert len(whole) == 14
    assert train(corpus, tmp_path / "run", str(tmp_path / "run/checkpoint-3")) == whole[6:]


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"mixing": "even"}, "mixing='even' is not one of proportional, temperature"),
        ({"mixing_temperature": 0.2}, "mixing_temperature=0.2: give 1 or more"),
        ({"bucket": 0}, "bucket=0: give 1 or more"),
        ({"mixing_temperature": float("nan")}, "mixing_temperature=nan: give 1 or more"),
        ({"pairs": ["vi-en", "th-zh"]}, "all must have the same target language"),
    ],
)
def test_arguments_are_checked(settings, part):
    with pytest.raises(ValueError, match=part):
        DapArguments(**({"pairs": ["vi-en", "th-en"], "train_data": ["{source}.tsv"]} | settings))


@pytest.mark.shared
def test_real_text(shared_data):
    templates = [
        f"{shared_data}/anki/en-{{source}}.tsv.gz#1,0",
        f"{shared_data}/ntrex/{{source}}.txt+{shared_data}/ntrex/en.txt@1-1543",
    ]
    args = DapArguments(
        pairs=["zh-en", "vi-en"],
        train_data=templates,
        max_train_pairs=8000,
        mixing="temperature",
        tatoeba=str(shared_data / "tatoeba"),
    )
    corpus = load_corpus(args, tests=HeldOut(args).tests())
    zh, vi = corpus.pairs
    assert (zh.read, vi.read) == (21209 + 1543, 7400 + 1543)
    assert (zh.used, len(zh.train)) == (8000, 8000)
    assert 0 <= zh.leaks < 0.2 * zh.read
    expected = np.array([8000, vi.used]) ** 0.2
    np.testing.assert_allclose(weights(corpus, args), expected / expected.sum())


def test_parts_of_one_collection_are_one_test_and_none_is_trained_on(tmp_path):
    for lang in ("zh", "vi"):
        lines = "".join(f"{lang} {row}\n" for row in range(60))
        (tmp_path / f"{lang}.txt").write_text(lines, encoding="utf-8")
    both = f"{tmp_path}/zh.txt+{tmp_path}/vi.txt"
    args = DapArguments(pairs=["zh-vi"], train_data=[both], test_data=[f"{both}@1-10", f"{both}@31-35"])
    tests = HeldOut(args)
    assert {name: len(of_set["zh"]) for name, of_set in tests.sets.items()} == {tmp_path.name: 15}
    (pair,) = load_corpus(args, tests=tests.tests()).pairs
    assert (len(pair.train), pair.leaks) == (45, 15)


ROWS = [
    {"source": "abc", "target": "a", "source_lang": "zh", "target_lang": "en"},
    {"source": "a", "target": "abcdefgh", "source_lang": "vi", "target_lang": "en"},
]


def test_sides_are_padded_apart():
    tokenizer = tiny_tokenizer()
    batch = PairCollator(tokenizer, 32)(ROWS)
    assert set(batch) == {"source", "target"}
    assert set(batch["source"]) == {"input_ids", "attention_mask"}
    a, b, c, pad, cls, sep = tokenizer.convert_tokens_to_ids(["a", "b", "c", "[PAD]", "[CLS]", "[SEP]"])
    assert batch["source"]["input_ids"].tolist() == [[cls, a, b, c, sep], [cls, a, sep, pad, pad]]
    assert batch["source"]["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch["target"]["input_ids"].shape == (2, 10)


def test_padding_is_on_the_right_whatever_the_tokenizer_says():
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = "left"
    left, right = PairCollator(tokenizer)(ROWS), PairCollator(tiny_tokenizer())(ROWS)
    assert torch.equal(left["target"]["input_ids"], right["target"]["input_ids"])
    assert torch.equal(left["target"]["attention_mask"], right["target"]["attention_mask"])


def test_token_types_are_dropped():
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "abc", "a"])}
    tokenizer = BertTokenizer(vocab=vocabulary)
    assert "token_type_ids" in tokenizer("a")
    assert set(PairCollator(tokenizer)(ROWS)["source"]) == {"input_ids", "attention_mask"}


def test_texts_are_cut():
    tokenizer = tiny_tokenizer()
    batch = PairCollator(tokenizer, 5)(ROWS)
    assert batch["target"]["input_ids"].shape == (2, 5)
    assert batch["target"]["input_ids"][1, -1] == tokenizer.sep_token_id


def test_language_numbers():
    assert PairCollator(tiny_tokenizer(), languages=["th", "vi", "zh"])(ROWS)["language"].tolist() == [2, 1]


def test_length_without_room_for_text():
    with pytest.raises(ValueError, match="max_length=2 leaves no room beside the 2 special tokens"):
        PairCollator(tiny_tokenizer(), 2)


def test_the_shortlist_has_the_prompt_too(aligned):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "en", "line", "text", "query"]
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)})
    args = build(aligned, objective="tr+rtl", prompt="query ")
    found = set(target_ids(load(args), args, tokenizer).tolist())
    assert {tokenizer.convert_tokens_to_ids(word) for word in ("query", "en", "[CLS]")} <= found
    bare = replace(args, prompt="")
    assert tokenizer.convert_tokens_to_ids("query") not in target_ids(load(bare), bare, tokenizer)
