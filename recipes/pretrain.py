"""Pretrain a tokenizer and a small BERT from scratch by (translation) masked language modelling, on any text.

python recipes/pretrain.py --config recipes/configs/pretrain_quickstart.yaml [--texts FILE.txt.gz ...] [--key value ...]

The encoder goes to OUTPUT_DIR/model, for `AutoModel` and `SentenceTransformer`; the same with its language modelling
head to OUTPUT_DIR/masked_lm, for `AutoModelForMaskedLM`.
"""

import math
import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from hfxling.data.parallel import load_parallel
from hfxling.data.readers import _lines as read_lines
from hfxling.data.sample import LANGUAGES, sample_texts
from hfxling.evaluation.results import EvalResult, content_hash, format_table, read_results, write_results
from hfxling.files import atomic_path
from hfxling.training.arguments import parse_arguments, resolved, run_recipe
from hfxling.training.trainer import XlingTrainer

TRAINING_DEFAULTS = {
    "output_dir": "outputs/pretrain",
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 64,
    "train_sampling_strategy": "group_by_length",
    "warmup_steps": 0.1,
    "report_to": "none",
}
SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}  # ids 0 to 4
ZERO_WIDTH = Regex("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
# Before a letter of these scripts a space does not begin a word, and most words begin without one.
UNSPACED = Regex(r"▁(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])")

Row = tuple[str, ...]  # one sentence, or the same sentence in several languages


@dataclass
class PretrainArguments:
    """Which text is read, the tokenizer and the size of the encoder; the defaults suit some million sentences."""

    texts: list[str] = field(
        default_factory=list, metadata={"help": "text files, one sentence a line, plain or .gz; or sample"}
    )
    parallel: list[str] = field(
        default_factory=list, metadata={"help": "parallel files; zh-vi:FILE where columns are named after languages"}
    )
    languages: list[str] = field(
        default_factory=lambda: list(LANGUAGES), metadata={"help": "languages of the sample corpus to read"}
    )
    generated: int | None = field(default=None, metadata={"help": "generated sentences of the sample corpus"})
    tlm_share: float | None = field(
        default=None, metadata={"help": "share of the examples that are translation pairs; by default 0.5 or none"}
    )
    heldout: float = field(default=0.01, metadata={"help": "share of the text kept out of training, to measure on"})
    vocab_size: int = field(default=32_000, metadata={"help": "pieces of the tokenizer, special tokens included"})
    max_piece_length: int = field(default=16, metadata={"help": "longest piece of the tokenizer, in characters"})
    lowercase: bool = field(default=False, metadata={"help": "lower-case all text"})
    hidden_size: int = field(default=256, metadata={"help": "width of the encoder"})
    num_hidden_layers: int = field(default=6, metadata={"help": "its depth"})
    num_attention_heads: int = field(default=4, metadata={"help": "attention heads; they divide hidden_size"})
    intermediate_size: int = field(default=1024, metadata={"help": "width of the feed-forward blocks"})
    dropout: float = field(default=0.1, metadata={"help": "dropout in the encoder"})
    max_length: int = field(default=128, metadata={"help": "tokens of a text or a pair, special tokens included"})
    mask_probability: float = field(default=0.15, metadata={"help": "share of the tokens to predict (BERT: 0.15)"})


# ---------------------------------------------------------------- text


def read_rows(args: PretrainArguments) -> list[Row]:
    rows: list[Row] = []
    for name in args.texts:
        if name == "sample":
            rows += zip(*(sample_texts(lang, "train", generated=args.generated) for lang in args.languages))
        else:
            rows += read_text(name)
    for name in args.parallel:
        rows += read_parallel(name)
    return rows


def read_text(path: str) -> list[Row]:
    return [(text,) for _, line in read_lines(path) if (text := line.strip())]


def read_parallel(name: str) -> list[Row]:
    match = re.fullmatch(r"([a-z]{2,3})-([a-z]{2,3}):(.+)", name)
    source_lang, target_lang, path = match.groups() if match else ("und", "mul", name)
    pairs = load_parallel(path, source_lang, target_lang)
    return list(zip(pairs["source"], pairs["target"]))


class Examples(torch.utils.data.Dataset):
    def __init__(self, rows, tokenizer, *, max_length, tlm_share, seed):
        texts = [text for row in rows for text in row]
        self.ids = [np.array(ids, np.int32) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
        self.max_length = max_length
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        rng = random.Random(seed)
        pairs, start = [], 0
        for row in rows:
            count = len(row)
            if count > 1:
                pairs += [(start + i, start + (i + rng.randrange(1, count)) % count) for i in range(count)]
            start += count
        singles = [(i,) for i in range(len(texts))]
        share = tlm_share
        length = max(len(singles) / (1 - share) if share < 1 else 0, len(pairs) / share if share else 0)
        n = round(length * share)
        self.index = [*_draw(pairs, n, rng), *_draw(singles, round(length) - n, rng)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        parts = self.index[i]
        room = (self.max_length - 1 - len(parts)) // len(parts)
        ids, special = [self.cls], [1]
        for part in parts:
            piece = self.ids[part][:room].tolist()
            ids += [*piece, self.sep]
            special += [0] * len(piece) + [1]
        return {"input_ids": ids, "special_tokens_mask": special}


def _draw(items, count, rng):
    drawn = []
    while len(drawn) < count:
        drawn += rng.sample(items, min(len(items), count - len(drawn)))
    return drawn


class MaskingCollator(DataCollatorForLanguageModeling):
    def torch_call(self, examples):
        batch = super().torch_call(examples)
        ids, labels = batch["input_ids"], batch["labels"]
        # position: distance to the latest [SEP] before the token, so that both sides of a pair are numbered alike
        at = torch.arange(ids.shape[1])
        true = torch.where(labels == -100, ids, labels)
        ends = torch.where(true == self.tokenizer.sep_token_id, at, 0).cummax(dim=1).values
        before = torch.nn.functional.pad(ends, (1, 0))[:, :-1]
        batch["position_ids"] = at - before
        return dict(batch)


class SparseMaskedLM(BertForMaskedLM):
    def forward(self, input_ids, attention_mask, position_ids, labels):
        states = self.bert(input_ids, attention_mask, position_ids=position_ids).last_hidden_state
        masked = labels != -100
        scores = self.cls(states[masked])
        loss = torch.nn.functional.cross_entropy(scores, labels[masked], reduction="sum") / masked.sum().clamp(min=1)
        return {"loss": loss}


def train_tokenizer(texts, args):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    steps = [normalizers.NFKC(), normalizers.Replace(ZERO_WIDTH, ""), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer.normalizer = normalizers.Sequence(steps + [normalizers.Lowercase()] * args.lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(UNSPACED, "removed"), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.decoder = decoders.Metaspace()
    special = list(SPECIAL_TOKENS.values())
    trainer = trainers.BpeTrainer(
        vocab_size=args.vocab_size, special_tokens=special, show_progress=False, max_token_length=args.max_piece_length, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:0 [SEP]:0", special_tokens=ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=args.max_length,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{kind}_token": token for kind, token in SPECIAL_TOKENS.items()},
    )


def main(argv=None):
    import time
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(2)
    args, training_args = parse_arguments((PretrainArguments, TrainingArguments), argv, defaults=TRAINING_DEFAULTS, description=__doc__)
    clock = lambda: f"{time.process_time():.1f}"
    print("start", clock())
    training_args.remove_unused_columns = False
    rows = read_rows(args)
    print("rows", len(rows), clock())
    rng = random.Random(training_args.seed)
    rng.shuffle(rows)
    n = max(1, round(len(rows) * args.heldout))
    heldout, rows = rows[:n], rows[n:]
    tokenizer = train_tokenizer([t for row in rows for t in row], args)
    print("tokenizer", len(tokenizer), clock())
    train = Examples(rows, tokenizer, max_length=args.max_length, tlm_share=args.tlm_share, seed=training_args.seed)
    held = Examples(heldout, tokenizer, max_length=args.max_length, tlm_share=0.0, seed=0)
    print("encoded", len(train), sum(map(len, train.ids)) / len(train.ids), clock())
    set_seed(training_args.seed)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_hidden_layers, num_attention_heads=args.num_attention_heads,
        intermediate_size=args.intermediate_size, max_position_embeddings=args.max_length, type_vocab_size=1, hidden_dropout_prob=args.dropout, attention_probs_dropout_prob=args.dropout,
    )
    model = SparseMaskedLM(config)
    trainer = XlingTrainer(model, training_args, train_dataset=train, eval_dataset=held, data_collator=MaskingCollator(tokenizer, mlm_probability=args.mask_probability), processing_class=tokenizer)
    set_seed(0); print(trainer.evaluate(), clock())
    set_seed(training_args.seed)
    trainer.train()
    set_seed(0); print(trainer.evaluate(), clock())
    out = Path(training_args.output_dir) / "model"
    root = BertModel(config)
    root.load_state_dict(model.bert.state_dict(), strict=False)
    root.save_pretrained(out); tokenizer.save_pretrained(out)
    print("done", clock())


if __name__ == "__main__":
    run_recipe(main)
