"""Pretrain a tokenizer and a small BERT from scratch on any text, by masked and translation language modelling.

python examples/pretrain.py --config examples/configs/pretrain/quickstart.yaml [--texts FILE.txt.gz ...]

Translation language modelling (TLM; Lample and Conneau 2019) joins a sentence and its translations, each with positions
counted from its own start, so that a masked word can be read from the other language. Two folders are written:
OUTPUT_DIR/model, the encoder for `AutoModel`, `SentenceTransformer` and the recipes' --base_model, and
OUTPUT_DIR/masked_lm, the same encoder with its prediction head for `AutoModelForMaskedLM`.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, islice
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
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

from hfxling.arguments import key, parse_arguments
from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines
from hfxling.data.sample import LANGUAGES, SPLITS, sample_texts
from hfxling.data.sources import SAMPLE, Source
from hfxling.evaluation.results import EvalResult
from hfxling.files import content_hash
from hfxling.methods.checkpoints import newest_checkpoint
from hfxling.methods.publishing import Run, before_and_after, check_run, training_cost, write_run
from hfxling.methods.trainer import XlingTrainer

TOKENIZERS = ("unigram", "bpe")
TOKENIZER_TEXTS = 1_000_000  # most sentences on which the tokenizer is trained
SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ZERO_WIDTH = Regex("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\ufeff]")  # joiners stay: they change spelling
# No word boundary is marked before letters of these scripts, as most of their words have no space before them.
UNSPACED = Regex(r"▁(?=[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])")
TRAINING_DEFAULTS = {
    "output_dir": "outputs/pretrain",
    "per_device_train_batch_size": 64,
    "per_device_eval_batch_size": 64,
    "learning_rate": 1e-3,
    "warmup_steps": 0.1,
    "adam_beta2": 0.98,  # RoBERTa, table 9
    "train_sampling_strategy": "group_by_length",
    "remove_unused_columns": False,
    "dataloader_pin_memory": torch.cuda.is_available(),
}

Row = tuple[str, ...]  # a sentence alone, or with its translations


# Masks and batches depend only on seed and epoch, so a resumed run continues as if it had not been stopped.
class MaskingCollator(DataCollatorForLanguageModeling):
    """Pads and masks; counts the positions of every sentence from its own start, as when it is encoded alone.

    The masks depend only on the batch, `epoch` and `run_seed`.
    """

    epoch, run_seed = 0, 0

    def torch_call(self, examples):
        """(B, S) tensors input_ids, attention_mask, position_ids and labels (-100 where nothing is predicted)."""
        drawn_from = (self.run_seed, self.epoch, [example["input_ids"] for example in examples])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(repr(drawn_from).encode()))
            batch = dict(super().torch_call(examples))
        unmasked = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
        index = torch.arange(unmasked.shape[1])
        ends = torch.where(unmasked == self.tokenizer.sep_token_id, index, 0).cummax(dim=1).values
        batch["position_ids"] = index - torch.nn.functional.pad(ends, (1, -1))
        return batch


class GroupsByEpoch(LengthGroupedSampler):
    """Batches of similar length, drawn anew in every epoch, by its number."""

    epoch, run_seed = 0, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(zlib.crc32(repr((self.run_seed, self.epoch)).encode()))
        return iter(get_length_grouped_indices(self.lengths, self.batch_size, generator=generator))


class MaskedTrainer(XlingTrainer):
    """An `XlingTrainer` whose `MaskingCollator` and sampler know seed and epoch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.by_epoch = [self.data_collator]
        self.add_callback(_EpochTeller(self.by_epoch))
        self.data_collator.run_seed = self.args.seed

    def _get_train_sampler(self, *args, **kwargs):
        sampler = super()._get_train_sampler(*args, **kwargs)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = GroupsByEpoch(sampler.batch_size, lengths=sampler.lengths)
            sampler.run_seed = self.args.seed
            self.by_epoch[1:] = [sampler]
        return sampler


class _EpochTeller(TrainerCallback):
    def __init__(self, listeners: list):
        self.listeners = listeners

    def on_epoch_begin(self, args, state, control, **kwargs):
        """A resumed run begins somewhere in an epoch, which the Trainer counts as a fraction."""
        for each in self.listeners:
            each.epoch = int((state.epoch or 0) + 1e-6)


@dataclass
class PretrainArguments:
    """The text to read, the tokenizer, and the encoder's size."""

    texts: list[str] = key("text files with one sentence a line, or sample", [])
    parallel: list[str] = key(
        "sources of pairs (docs/text.md): FILE, FILE+FILE or a Hub id; write zh-vi=... to name the languages", []
    )
    languages: list[str] = key("languages of the sample to use", list(LANGUAGES))
    generated: int | None = key("number of generated sentences of the sample to use; default: all", None)
    heldout: float = key("share of the text that is held out, to measure the loss on", 0.01)
    tlm_share: float | None = key("share of TLM examples; default: 0.5 if there are pairs", None)
    tlm_languages: int = key("most languages joined in one TLM example (XLM: 2)", 2)
    mask_probability: float = key("share of the tokens to predict (BERT: 0.15)", 0.15)
    tokenizer: str = key(f"kind of tokenizer: {' or '.join(TOKENIZERS)}", "unigram")
    vocab_size: int = key("number of pieces in the vocabulary, including special tokens", 16_000, least=1)
    lowercase: bool = key("lower-case all text", False)
    hidden_size: int = key("width of the encoder", 256, least=1)
    layers: int = key("number of layers of the encoder", 6, least=1)
    heads: int = key("number of attention heads; hidden_size must be a multiple of it", 4, least=1)
    intermediate_size: int = key("width of the feed-forward blocks", 1024, least=1)
    dropout: float = key("dropout on hidden states and attention (BERT: 0.1)", 0.1)
    max_length: int = key("most tokens of an example, including special tokens", 128, least=8)

    def __post_init__(self):
        if not self.texts and not self.parallel:
            raise ValueError("give --texts FILES (one sentence a line) or sample, or --parallel FILES.")
        for text in self.parallel:
            source = Source.parse(text)
            if source.is_template and source.only_for is None:
                raise ValueError(f"parallel={text!r}: which languages are these? Write it like zh-vi={text}.")
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer={self.tokenizer!r} is not one of {', '.join(TOKENIZERS)}.")
        if self.tlm_share is not None and not 0 <= self.tlm_share <= 1:
            raise ValueError(f"tlm_share={self.tlm_share}: give 0 (no translations) to 1 (nothing else).")
        for name, upper in (("mask_probability", 1), ("heldout", 0.5)):
            if not 0 < getattr(self, name) < upper:
                raise ValueError(f"{name}={getattr(self, name)}: give a share above 0 and below {upper}.")
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size={self.hidden_size}: give a multiple of heads={self.heads}.")
        if not 2 <= self.tlm_languages <= self.max_length // 4:
            raise ValueError(f"tlm_languages={self.tlm_languages}: give 2 to {self.max_length // 4}, max_length / 4.")

    def bert_config(self, vocab_size: int) -> BertConfig:
        """The encoder."""
        return BertConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate_size,
            max_position_embeddings=self.max_length,
            type_vocab_size=1,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            # BERT's 0.02 is for width 768; a narrow encoder that starts with so small weights is slow to attend.
            initializer_range=0.02 * math.sqrt(768 / self.hidden_size),
        )


def sample_of(lang: str, generated: int | None) -> list[str]:
    """The sample's training text; sentences beyond those it ships with come from its grammar (tools/sample_grammar)."""
    if generated is None or generated <= SPLITS["train"]:
        return sample_texts(lang, "train", generated=generated)
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
    from sample_grammar.grammar import generate

    return sample_texts(lang, "train", generated=0) + [sentence.text(lang) for sentence in generate("train", generated)]


def read_rows(args: PretrainArguments) -> list[Row]:
    """All text, each distinct row once."""
    rows: list[Row] = []
    for name in args.texts:
        if name == SAMPLE:
            rows += zip(*(sample_of(lang, args.generated) for lang in args.languages))
            continue
        if not Path(name).is_file():
            raise FileNotFoundError(f"{name}: no such text file; give files with one sentence a line, or sample.")
        rows += (lines := [(text,) for _, line in read_lines(name) if (text := line.strip())])
        if not lines:
            raise ValueError(f"{name}: no text in it; give files with one sentence a line.")
    for text in args.parallel:
        source = Source.parse(text)
        pairs = source.load(source.only_for or ("und", "mul"))  # ISO 639-2: undetermined, several
        rows += zip(pairs["source"], pairs["target"])
    return list(dict.fromkeys(rows))


def split_rows(rows: list[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Training and held-out rows, both shuffled."""
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} different sentence in all: too little text to train on and to measure on.")
    random.Random(seed).shuffle(rows)
    count = max(1, round(share * len(rows)))
    return rows[count:], rows[:count]


def tlm_share(args: PretrainArguments, rows: Sequence[Row]) -> float:
    """The share of examples that join translations, if there are any."""
    parallel = any(len(row) > 1 for row in rows)
    if args.tlm_share and not parallel:
        raise ValueError(f"tlm_share={args.tlm_share} needs translations: give --parallel FILES, or --texts sample.")
    return (0.5 if parallel else 0.0) if args.tlm_share is None else args.tlm_share


def draw_examples(rows: Sequence[Row], share: float, size: int, seed: int) -> list[tuple[int, ...]]:
    """The examples of one epoch, as indices into the sentences of all rows in sequence.

    A `share` of the examples join up to `size` translations in random order; the others are single sentences. Every
    sentence and every row occurs at least once; whichever kind is too rare for its share is drawn again.
    """
    rng = random.Random(seed)
    starts = list(accumulate(map(len, rows), initial=0))

    def alone() -> list[tuple[int, ...]]:
        return list(zip(rng.sample(range(starts[-1]), starts[-1])))

    def joined() -> list[tuple[int, ...]]:
        orders = (rng.sample(range(start, start + len(row)), len(row)) for start, row in zip(starts, rows))
        groups = (tuple(order[i : i + size]) for order in orders for i in range(0, len(order), size))
        return [group for group in groups if len(group) > 1]

    total = max(starts[-1] / (1 - share) if share < 1 else 0, len(joined()) / share if share else 0)
    wanted = ((joined, round(total * share)), (alone, round(total * (1 - share))))
    return [one for kind, number in wanted for one in islice(chain.from_iterable(iter(kind, None)), number)]


class Examples(torch.utils.data.Dataset):
    """Token ids of `draw_examples`: [CLS] sentence [SEP] translation [SEP] ..., each cut to its share of max_length."""

    def __init__(self, rows: Sequence[Row], tokenizer, args: PretrainArguments, share: float, seed: int):
        texts = [text for row in rows for text in row]
        self.ids: list[np.ndarray] = []
        for start in range(0, len(texts), 10_000):
            encoded = tokenizer(texts[start : start + 10_000], add_special_tokens=False, verbose=False)["input_ids"]
            self.ids += [np.array(ids, np.int32) for ids in encoded]
        self.examples = draw_examples(rows, share, args.tlm_languages, seed)
        self.max_length, self.cls, self.sep = args.max_length, tokenizer.cls_token_id, tokenizer.sep_token_id

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        sentences = self.examples[index]
        room = (self.max_length - 1) // len(sentences) - 1
        ids, special = [self.cls], [1]
        for sentence in sentences:
            pieces = self.ids[sentence][:room].tolist()
            ids += [*pieces, self.sep]
            special += [0] * len(pieces) + [1]
        return {"input_ids": ids, "special_tokens_mask": special}


def train_tokenizer(texts: list[str], args: PretrainArguments) -> Tokenizer:
    """NFKC, no zero-width characters, single spaces; words, punctuation marks and digits apart."""
    texts = random.Random(0).sample(texts, min(len(texts), TOKENIZER_TEXTS))
    settings = {"vocab_size": args.vocab_size, "special_tokens": [*SPECIAL_TOKENS.values()]}
    settings["show_progress"] = sys.stderr.isatty()
    settings["initial_alphabet"] = list("0123456789")  # numbers are split, so ten pieces cover all of them
    if args.tokenizer == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL_TOKENS["unk"]))
        trainer = trainers.BpeTrainer(min_frequency=2, max_token_length=16, **settings)
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token=SPECIAL_TOKENS["unk"], **settings)
    steps = [normalizers.NFKC(), normalizers.Replace(ZERO_WIDTH, ""), normalizers.Replace(Regex(r"\s+"), " ")]
    steps += [normalizers.Strip()] + [normalizers.Lowercase()] * args.lowercase
    tokenizer.normalizer = normalizers.Sequence(steps)
    cuts = [pre_tokenizers.Metaspace(), pre_tokenizers.Split(UNSPACED, "removed"), pre_tokenizers.Punctuation()]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.Metaspace()
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except Exception as error:  # tokenizers raises no narrower class
        raise ValueError(f"vocab_size={args.vocab_size}: {error}; raise it.") from None
    if (size := tokenizer.get_vocab_size()) != args.vocab_size:
        reason = "large: the text yields only" if size < args.vocab_size else "small: the characters alone are"
        raise ValueError(f"vocab_size={args.vocab_size} is too {reason} {size} pieces; change it or the text.")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


class SparseMaskedLM(BertForMaskedLM):
    """Scores the vocabulary only at predicted positions: the same loss for a fraction of the work."""

    _keys_to_ignore_on_save = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")  # tied

    def forward(self, input_ids, attention_mask, position_ids, labels):
        """Token ids, mask, positions and labels, all (B, S), to the mean loss in nats."""
        states = self.bert(input_ids, attention_mask, position_ids=position_ids).last_hidden_state
        chosen = labels != -100
        losses = torch.nn.functional.cross_entropy(self.cls(states[chosen]), labels[chosen], reduction="sum")
        return {"loss": losses / chosen.sum().clamp(min=1)}


# A run -----------------------------------------------------------------------------
@dataclass
class Prepared:
    """Rows to train on, held-out rows, and the share of the examples that join translations."""

    rows: list[Row]
    heldout: list[Row]
    share: float


def prepare(args: PretrainArguments, training_args: TrainingArguments) -> Prepared:
    """Check the output folder, then read the text.

    Raises:
        ValueError: see `check_folder`; too little text, or none with translations if TLM is asked for.
        FileNotFoundError: a missing file.
    """
    check_folder(training_args)
    rows, heldout = split_rows(read_rows(args), args.heldout, training_args.seed)
    return Prepared(rows, heldout, tlm_share(args, rows))


def check_folder(training_args: TrainingArguments) -> None:
    """Refuse an output folder whose content another program wrote, or whose checkpoints would be lost."""
    folder = Path(training_args.output_dir)
    names = sorted(path.name for path in folder.glob("*"))
    checkpoints = [name for name in names if re.fullmatch(r"checkpoint-\d+", name)]
    ours = {*checkpoints, "runs", *(name for name in ("model", "masked_lm") if _wrote(folder / name))}
    if strange := [name for name in names if name not in ours and not name.startswith(".")]:
        raise ValueError(f"output_dir={folder} holds {strange[0]!r}, not this recipe's; name a new or empty folder.")
    # An unfinished first checkpoint that a kill left is none: a run cannot continue from it, and it is written anew.
    if newest_checkpoint(folder) and not training_args.resume_from_checkpoint:
        raise ValueError(f"output_dir={folder} has checkpoints; give --resume_from_checkpoint, or remove them.")


def _wrote(folder: Path) -> bool:
    """Whether the folder is an earlier result of this recipe."""
    try:
        record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        return record["recipe"] in ("examples/pretrain.py", "recipes/pretrain.py")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def make_tokenizer(
    rows: Sequence[Row], args: PretrainArguments, training_args: TrainingArguments
) -> PreTrainedTokenizerBase:
    """The tokenizer of the run that is resumed, or a new one that every process shares."""
    if training_args.resume_from_checkpoint:
        return AutoTokenizer.from_pretrained(training_args.resume_from_checkpoint)
    is_main = training_args.process_index == 0
    try:
        trained = train_tokenizer([text for row in rows for text in row], args).to_str() if is_main else None
    except ValueError as error:  # passed on as well, or the other processes would wait
        trained = error
    (trained,) = broadcast_object_list([trained])
    if isinstance(trained, ValueError):
        raise trained
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(trained),
        model_max_length=args.max_length,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{kind}_token": token for kind, token in SPECIAL_TOKENS.items()},
    )


def check_same_encoder(config: BertConfig, checkpoint: str | None) -> None:
    """Refuse to resume with other sizes than the run was started with."""
    earlier = BertConfig.from_pretrained(checkpoint).to_dict() if checkpoint else config.to_dict()
    for name, now in config.to_dict().items():
        if type(now) is int and earlier[name] != now:
            raise ValueError(f"{checkpoint} has {name}={earlier[name]}, not {now}; resume with the same arguments.")


def heldout_loss(trainer: XlingTrainer) -> float:
    """Mean loss of a masked token in the held-out sentences, in nats, with the same masks every time."""
    trainer.data_collator.epoch = -1
    return trainer.evaluate()["eval_loss"]


def run(args: PretrainArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train tokenizer and network; the loss of held-out text before and after."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # with an encoder this small, more threads mostly wait for each other
    seed, checkpoint = training_args.seed, training_args.resume_from_checkpoint
    tokenizer = make_tokenizer(prepared.rows, args, training_args)
    set_seed(seed)
    model = SparseMaskedLM(args.bert_config(len(tokenizer)))
    check_same_encoder(model.config, checkpoint)
    trainer = MaskedTrainer(
        model,
        training_args,
        train_dataset=Examples(prepared.rows, tokenizer, args, prepared.share, seed),
        eval_dataset=Examples(prepared.heldout, tokenizer, args, 0.0, seed),
        data_collator=MaskingCollator(tokenizer, mlm_probability=args.mask_probability),
        processing_class=tokenizer,
    )
    losses = {"before": heldout_loss(trainer)}
    set_seed(seed)
    with training_cost() as cost:
        steps = trainer.train(resume_from_checkpoint=checkpoint).global_step
    losses["after"] = heldout_loss(trainer)
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    reached = {"vocabulary": len(tokenizer), "parameters": model.num_parameters(), "rows": len(prepared.rows)}
    reached |= {"tlm_share": prepared.share, "steps": steps, "perplexity": round(math.exp(losses["after"]), 2)} | cost
    if not training_args.should_save:  # one process writes
        return Run([], reached)
    texts = [text for row in prepared.heldout for text in row]
    about = {"n": len(texts), "dataset": "pretraining text", "split": "held out", "unit": "nats", "seed": seed}
    about["revision"] = content_hash(texts)
    results = [EvalResult("masked-token loss", loss, settings={"stage": at}, **about) for at, loss in losses.items()]
    set_seed(seed)  # the untrained pooler is the same after a resume, too
    encoder, masked_lm = (partial(_write, network, tokenizer) for network in whole_models(model.config, state))
    return Run(results, reached, encoder, others={"masked_lm": masked_lm})


def whole_models(config: BertConfig, state: dict) -> tuple[BertModel, BertForMaskedLM]:
    """Encoder and masked LM for a folder each, because no one set of weights loads into both without a load report."""
    encoder, masked_lm = BertModel(config), BertForMaskedLM(config)
    masked_lm.load_state_dict(state)
    encoder.load_state_dict(masked_lm.bert.state_dict(), strict=False)  # all but the pooler, which stays untrained
    return encoder, masked_lm


def _write(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(argv: list[str] | None = None) -> list[EvalResult]:
    """Read text, train, write both folders, print the table."""
    types = (PretrainArguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=TRAINING_DEFAULTS, description=__doc__)
    check_run(training_args)
    finished = run(args, training_args, prepare(args, training_args))
    return write_run("examples/pretrain.py", args, training_args, finished, before_and_after(finished.results))


if __name__ == "__main__":
    run_recipe(main)
