"""The pretraining recipe on small texts: folders that load silently, resuming, pairs, one-line errors."""

import gzip
import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_tokenizer
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, TrainingArguments
from transformers.utils import logging

from examples import pretrain
from examples import pretrain as masked_lm
from hfxling.arguments import parse_arguments
from hfxling.data.sample import sample_texts
from hfxling.evaluation.results import read_results

ROOT = Path(__file__).resolve().parents[2]
WORDS = ["cat", "dog", "bird", "fish", "child", "teacher", "doctor", "house", "road", "market", "sees", "finds"]
TINY = {
    "vocab_size": 40,
    "hidden_size": 16,
    "layers": 1,
    "heads": 2,
    "intermediate_size": 16,
    "dropout": 0,
    "max_length": 32,
    "max_steps": 6,
    "learning_rate": 0.01,
    "per_device_train_batch_size": 16,
    "use_cpu": True,
    "disable_tqdm": True,
    "save_strategy": "no",
}


def sentences(count, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 8))) for _ in range(count)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt.gz"
    path.write_bytes(gzip.compress("\n\n".join(sentences(200)).encode()))
    return path


def arguments(texts, output_dir, **changed) -> list[str]:
    given = {"texts": texts, "output_dir": output_dir, **TINY, **changed}
    return [word for key, value in given.items() if value is not None for word in (f"--{key}", str(value))]


def train(*args, **changed):
    return pretrain.main(arguments(*args, **changed))


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory) -> Path:
    """A finished run with a checkpoint at half its way."""
    folder = tmp_path_factory.mktemp("run") / "output"
    train(texts, folder, save_strategy="steps", save_steps=3)
    return folder


@pytest.mark.parametrize(("kind", "name"), [(AutoModel, "model"), (AutoModelForMaskedLM, "masked_lm")])
def test_folder_loads_without_a_word(run, caplog, capfd, kind, name):
    logging.get_logger("transformers").addHandler(caplog.handler)
    logging.disable_progress_bar()
    capfd.readouterr()
    try:
        _, info = kind.from_pretrained(run / name, output_loading_info=True)
        AutoTokenizer.from_pretrained(run / name)
    finally:
        logging.get_logger("transformers").removeHandler(caplog.handler)
        logging.enable_progress_bar()
    assert not any(info.values())
    assert caplog.records == []
    assert "".join(capfd.readouterr()) == ""


def test_both_folders_hold_the_same_encoder(run):
    encoder, masked_lm = (
        AutoModel.from_pretrained(run / "model"),
        AutoModelForMaskedLM.from_pretrained(run / "masked_lm"),
    )
    inputs = AutoTokenizer.from_pretrained(run / "model")("the cat sees the dog", return_tensors="pt")
    assert torch.equal(encoder(**inputs).last_hidden_state, masked_lm.bert(**inputs).last_hidden_state)


def test_training_lowers_the_heldout_loss(run):
    before, after = read_results(run / "model" / "results.json")
    assert (before.settings["stage"], after.settings["stage"]) == ("before", "after")
    assert after.value < before.value - 0.1
    assert before.n == 2  # 1 % of 200 sentences


@pytest.fixture
def killed(run, tmp_path) -> Path:
    """What a run leaves that was killed after its first checkpoint."""
    shutil.copytree(run / "checkpoint-3", tmp_path / "out" / "checkpoint-3")
    return tmp_path / "out"


def test_resuming_takes_over_the_weights(killed, texts):
    path, name = killed / "checkpoint-3" / "model.safetensors", "bert.embeddings.LayerNorm.bias"
    weights = load_file(path)
    save_file(weights | {name: weights[name] + 5}, path, metadata={"format": "pt"})
    train(texts, killed, resume_from_checkpoint="true")
    assert AutoModel.from_pretrained(killed / "model").embeddings.LayerNorm.bias.min() > 4


def test_resuming_ends_where_the_whole_run_did(run, killed, texts):
    train(texts, killed, resume_from_checkpoint="true")
    for name in ("model", "masked_lm"):
        whole, resumed = ((folder / name / "model.safetensors").read_bytes() for folder in (run, killed))
        assert whole == resumed
    tokenizers = [(folder / "tokenizer.json").read_text() for folder in (killed / "checkpoint-3", killed / "model")]
    assert tokenizers[0] == tokenizers[1]


def test_masks_and_batches_of_a_later_epoch_are_drawn_again_as_they_were(texts, tmp_path):
    options = {"max_steps": 20, "save_strategy": "steps", "save_steps": 15, "dropout": 0.1}  # 13 steps an epoch
    train(texts, tmp_path / "whole", **options)
    shutil.copytree(tmp_path / "whole" / "checkpoint-15", tmp_path / "killed" / "checkpoint-15")
    train(texts, tmp_path / "killed", **options, resume_from_checkpoint="true")
    whole, resumed = (tmp_path / name / "model" / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == resumed.read_bytes()
    one, other = (pretrain.MaskingCollator(tiny_tokenizer()) for _ in range(2))
    examples = [{"input_ids": list(range(5, 30)), "special_tokens_mask": [0] * 25}] * 8
    assert torch.equal(one(examples)["labels"], other(examples)["labels"])
    other.epoch = 1
    assert not torch.equal(one(examples)["labels"], other(examples)["labels"])


def test_resuming_without_a_value_takes_the_newest_whole_checkpoint(run, texts, tmp_path, monkeypatch):
    shutil.copytree(run / "checkpoint-3", tmp_path / "checkpoint-3")
    shutil.copytree(run / "checkpoint-6", tmp_path / "checkpoint-6")
    (tmp_path / "checkpoint-6" / "trainer_state.json").unlink()  # a kill left it unfinished
    seen, begun = [], masked_lm.XlingTrainer.train
    monkeypatch.setattr(
        masked_lm.XlingTrainer,
        "train",
        lambda self, resume_from_checkpoint: seen.append(resume_from_checkpoint) or begun(self, resume_from_checkpoint),
    )
    pretrain.main([*arguments(texts, tmp_path), "--resume_from_checkpoint"])
    assert seen == [str(tmp_path / "checkpoint-3")]


def test_resuming_with_another_size_is_refused(run, texts, tmp_path):
    with pytest.raises(ValueError, match="hidden_size=16, not 32"):
        train(texts, tmp_path, resume_from_checkpoint=run / "checkpoint-3", hidden_size=32)


def test_checkpoints_of_an_earlier_run_are_not_run_over(run, texts):
    with pytest.raises(ValueError, match="has checkpoints; give --resume_from_checkpoint, or remove them"):
        train(texts, run)


def test_what_a_kill_left_of_the_first_checkpoint_is_no_obstacle(run, texts, tmp_path):
    shutil.copytree(run / "checkpoint-3", tmp_path / "checkpoint-3")
    (tmp_path / "checkpoint-3" / "trainer_state.json").unlink()
    train(texts, tmp_path, save_strategy="steps", save_steps=3)
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert (tmp_path / "checkpoint-3" / "trainer_state.json").is_file()


@pytest.mark.slow
def test_two_processes_share_one_tokenizer_and_write_one_folder(texts, warm_python, tmp_path):
    script = [warm_python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*script, str(ROOT / "examples" / "pretrain.py"), *arguments(texts, tmp_path / "out", max_steps=2)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHON_EXEC": warm_python}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("model folder") == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model", "masked_lm"}


@pytest.mark.parametrize("tokenizer", masked_lm.TOKENIZERS)
def test_tokenizer_normalises_and_splits(tokenizer):
    samples = [text for lang in ("en", "zh", "lo") for text in sample_texts(lang, generated=0)]
    settings = masked_lm.PretrainArguments(texts=["x"], tokenizer=tokenizer, vocab_size=1500, lowercase=True)
    trained = masked_lm.train_tokenizer(samples, settings)
    plain = trained.encode("i have 1234 books").tokens
    assert trained.encode("  I\u200b have\u3000１２34 books ").tokens == plain
    assert {"1", "2", "3", "4"} <= set(plain)
    assert (plain[0], plain[-1]) == ("[CLS]", "[SEP]")
    assert not any(token.startswith("▁") for token in trained.encode("我们在家").tokens)


ROWS = [("a", "b", "c"), ("d",), ("e", "f")]


@pytest.mark.parametrize(("share", "size"), [(0.0, 2), (0.25, 2), (0.5, 3), (1.0, 2)])
def test_examples_keep_the_share_and_lose_nothing(share, size):
    examples = masked_lm.draw_examples(ROWS, share, size, seed=0)
    lengths = Counter(len(example) > 1 for example in examples)
    assert lengths[True] / len(examples) == pytest.approx(share, abs=0.1)
    rows = {index: row for row, indices in enumerate([(0, 1, 2), (3,), (4, 5)]) for index in indices}
    assert all(
        len({rows[index] for index in example}) == 1 and len(set(example)) == len(example) <= size
        for example in examples
    )
    assert share == 1 or {(i,) for i in range(6)} <= set(examples)


@pytest.fixture(scope="module")
def pair_batch(run):
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    settings = masked_lm.PretrainArguments(texts=["x"], max_length=32)
    examples = masked_lm.Examples([("the cat", "dog sees bird")] * 4, tokenizer, settings, 1.0, seed=0)
    torch.manual_seed(0)
    collator = masked_lm.MaskingCollator(tokenizer, mlm_probability=0.5)
    return tokenizer, collator([examples[i] for i in range(len(examples))])


def test_positions_start_anew_with_every_sentence(pair_batch):
    tokenizer, batch = pair_batch
    for ids, labels, positions in zip(batch["input_ids"], batch["labels"], batch["position_ids"]):
        whole = torch.where(labels == -100, ids, labels).tolist()
        first = whole.index(tokenizer.sep_token_id)
        assert positions.tolist() == [*range(first + 1), *range(1, len(whole) - first)]


def test_special_tokens_are_never_predicted(pair_batch):
    tokenizer, batch = pair_batch
    predicted = set(batch["labels"].unique().tolist()) - {-100}
    assert predicted
    assert not predicted & {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}


def test_sparse_loss_is_the_loss_of_the_stock_model(run, pair_batch):
    _, batch = pair_batch
    stock = AutoModelForMaskedLM.from_pretrained(run / "masked_lm")
    sparse = masked_lm.SparseMaskedLM.from_pretrained(run / "masked_lm")
    with torch.no_grad():
        torch.testing.assert_close(sparse.eval()(**batch)["loss"], stock.eval()(**batch).loss)


def test_rows_of_texts_and_parallel_sources(tmp_path):
    """The one grammar of sources: a table, languages, columns, two files, lines."""
    contents = {
        "a.txt": "one\n two \n\none\n",
        "pairs.tsv": "hello\txin chào\n",
        "named.tsv": "vi\tzh\ncảm ơn\t谢谢\n",
        "columns.tsv": "1\tgood\ttốt\n",
        "en.txt": "cat\ndog\n",
        "vi.txt": "mèo\nchó\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    parallel = ["{}/pairs.tsv", "zh-vi={}/named.tsv", "{}/columns.tsv#1,2", "{}/en.txt+{}/vi.txt@2-2"]
    parallel = [text.replace("{}", str(tmp_path)) for text in parallel]
    settings = masked_lm.PretrainArguments(texts=[str(tmp_path / "a.txt")], parallel=parallel)
    assert masked_lm.read_rows(settings) == [
        *[("one",), ("two",), ("hello", "xin chào"), ("谢谢", "cảm ơn"), ("good", "tốt"), ("dog", "chó")]
    ]


def test_pairs_of_the_sample_join_the_languages_that_are_named():
    settings = masked_lm.PretrainArguments(parallel=["zh-vi=sample"])
    rows = masked_lm.read_rows(settings)
    assert rows[:100] == list(zip(*(sample_texts(lang) for lang in ("zh", "vi"))))[:100]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"texts": "nowhere.txt"}, "nowhere.txt: no such text file"),
        ({"texts": None}, "give --texts FILES"),
        ({"parallel": "nowhere.tsv"}, "nowhere.tsv does not exist"),
        ({"parallel": "sample"}, "parallel='sample': which languages are these? Write it like zh-vi=sample"),
        ({"parallel": "{lang}.tsv"}, "'{lang}.tsv': {lang} is not one of"),
        ({"texts": "sample", "languages": "xx"}, "language 'xx' is not in the sample corpus"),
        ({"vocab_size": 5000}, "vocab_size=5000 is too large: the text yields only"),
        ({"vocab_size": 5000, "tokenizer": "bpe"}, "vocab_size=5000 is too large: the text yields only"),
        ({"vocab_size": 8}, "vocab_size=8: The vocabulary is not large enough"),
        ({"vocab_size": 8, "tokenizer": "bpe"}, "vocab_size=8 is too small: the characters alone are"),
        ({"tlm_share": 1.5}, "tlm_share=1.5: give 0"),
        ({"tlm_share": 0.5}, "tlm_share=0.5 needs translations"),
        ({"mask_probability": 0}, "mask_probability=0.0: give a share above 0 and below 1"),
        ({"heads": 3}, "hidden_size=16: give a multiple of heads=3"),
        ({"layers": 0}, "layers=0: give 1 or more"),
        ({"tlm_languages": 9}, "tlm_languages=9: give 2 to 8"),
        ({"tokenizer": "words"}, "tokenizer='words' is not one of unigram, bpe"),
        ({"resume_from_checkpoint": "true"}, "resume_from_checkpoint=true: no whole checkpoint in"),
        ({"push_to_hub": True}, "push_to_hub: this recipe only writes folders"),
    ],
)
def test_errors_are_one_line(texts, tmp_path, refusal, changed, message):
    said = refusal(lambda: train(**({"texts": texts, "output_dir": tmp_path / "out"} | changed)))
    assert said.startswith(f"error: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty_text_is_refused(tmp_path, content):
    (tmp_path / "empty.txt").write_text(content)
    with pytest.raises(ValueError, match=r"empty\.txt: no text in it"):
        train(tmp_path / "empty.txt", tmp_path / "out")


def test_weights_that_diverged_are_not_written(texts, tmp_path):
    with pytest.raises(ValueError, match="Lower learning_rate"):
        train(texts, tmp_path / "out", learning_rate=1e30, max_steps=1, warmup_steps=0)
    assert not (tmp_path / "out" / "model").exists()


@pytest.mark.parametrize("name", ["thesis.pdf", "model/config.json"])
def test_a_folder_with_other_content_is_left_alone(texts, tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"not this recipe's; name a new or empty folder|did not write"):
        train(texts, tmp_path)
    assert (tmp_path / name).read_text() == "mine"


def test_a_finished_run_is_replaced(texts, tmp_path):
    for steps in (1, 2):
        train(texts, tmp_path / "out", max_steps=steps)
    settings = (tmp_path / "out" / "model" / "results.json").read_text()
    assert '"max_steps": 2' in settings


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "configs" / "pretrain").glob("*.yaml")))
def test_shipped_configurations(path):
    types = (pretrain.PretrainArguments, TrainingArguments)
    parse_arguments(types, ["--config", str(path)], defaults=pretrain.TRAINING_DEFAULTS)
