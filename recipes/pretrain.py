"""Pretrain a tokenizer and a small BERT from scratch on any text, by masked and translation language modelling.

python recipes/pretrain.py --config recipes/configs/pretrain/quickstart.yaml [--texts FILE.txt.gz ...] [--key value ...]

Translation language modelling (TLM; Lample and Conneau 2019) joins a sentence and its translations, each with positions
counted from its own start, so that a masked word can be read off the other language. Two folders are written:
OUTPUT_DIR/model, the encoder for `AutoModel`, `SentenceTransformer` and the other recipes' --base_model, and
OUTPUT_DIR/masked_lm, the same encoder with its prediction head for `AutoModelForMaskedLM`.
"""

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate.utils import broadcast_object_list
from tokenizers import Tokenizer
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.evaluation.results import EvalResult, format_table, write_results
from hfxling.files import atomic_path, content_hash
from hfxling.training.pretrain import (
    SPECIAL_TOKENS,
    Examples,
    MaskingCollator,
    PretrainArguments,
    Row,
    SparseMaskedLM,
    read_rows,
    split_rows,
    tlm_share,
    train_tokenizer,
)
from hfxling.training.trainer import XlingTrainer

RECIPE = "recipes/pretrain.py"
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
    "report_to": "none",
}


def main(argv: list[str] | None = None) -> list[EvalResult]:
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # more threads wait for each other longer than an encoder this small computes
    types = (PretrainArguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=TRAINING_DEFAULTS, description=__doc__)
    checkpoint = check_output(training_args)
    rows, heldout = split_rows(read_rows(args), args.heldout, training_args.seed)
    share = tlm_share(args, rows)
    tokenizer = make_tokenizer(rows, args, checkpoint, main_process=training_args.process_index == 0)
    set_seed(training_args.seed)
    model = SparseMaskedLM(args.bert_config(len(tokenizer)))
    check_same_encoder(model.config, checkpoint)
    trainer = XlingTrainer(
        model,
        training_args,
        train_dataset=Examples(rows, tokenizer, args, share, training_args.seed),
        eval_dataset=Examples(heldout, tokenizer, args, 0.0, training_args.seed),
        data_collator=MaskingCollator(tokenizer, mlm_probability=args.mask_probability),
        processing_class=tokenizer,
    )
    losses = {"before": heldout_loss(trainer)}
    set_seed(training_args.seed)
    trainer.train(resume_from_checkpoint=checkpoint)
    losses["after"] = heldout_loss(trainer)

    results = loss_results(losses, heldout, training_args.seed)
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if trainer.is_world_process_zero():
        folder = Path(training_args.output_dir)
        write_models(folder, model.config, state, tokenizer, results, resolved(args, training_args))
        print(summary(model, tokenizer, results))
        print(f"{len(rows)} training rows, {share:.0%} TLM examples\nmodel folder: {folder / 'model'}")
    return results


def check_output(training_args: TrainingArguments) -> str | None:
    """The checkpoint to resume from; refuses a folder whose content another program wrote, or that would be lost."""
    folder, resume = Path(training_args.output_dir), training_args.resume_from_checkpoint
    if training_args.push_to_hub:
        raise ValueError("push_to_hub: this recipe writes folders only; upload one with `hf upload NAME FOLDER`.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output_dir={folder} is a file; name a folder.")
    names = sorted(path.name for path in folder.glob("*"))
    checkpoints = [name for name in names if re.fullmatch(r"checkpoint-\d+", name)]
    ours = {*checkpoints, "runs", *(name for name in ("model", "masked_lm") if _wrote(folder / name))}
    if strange := [name for name in names if name not in ours and not name.startswith(".")]:
        raise ValueError(f"output_dir={folder} holds {strange[0]!r}, not this recipe's; name a new or empty folder.")
    if resume in (None, "", "false", "False"):
        if checkpoints:
            raise ValueError(f"output_dir={folder} has checkpoints: give --resume_from_checkpoint true or remove them.")
        return None
    found = get_last_checkpoint(folder) if resume in ("true", "True") and names else resume
    if not found or not (Path(found) / "trainer_state.json").is_file():
        raise ValueError(f"resume_from_checkpoint={resume}: no checkpoint there; leave it out to start anew.")
    return str(found)


def _wrote(folder: Path) -> bool:
    """Whether the folder is an earlier result of this recipe."""
    try:
        return json.loads((folder / "results.json").read_text(encoding="utf-8"))["recipe"] == RECIPE
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_same_encoder(config: BertConfig, checkpoint: str | None) -> None:
    """Refuse to resume with other sizes than the run was started with."""
    earlier = BertConfig.from_pretrained(checkpoint).to_dict() if checkpoint else config.to_dict()
    for name, now in config.to_dict().items():
        if type(now) is int and earlier[name] != now:
            raise ValueError(f"{checkpoint} has {name}={earlier[name]}, not {now}; resume with the same arguments.")


def make_tokenizer(
    rows: Sequence[Row], args: PretrainArguments, checkpoint: str | None, *, main_process: bool
) -> PreTrainedTokenizerBase:
    """The tokenizer of the run that is resumed, or a new one that every process shares."""
    if checkpoint:
        return AutoTokenizer.from_pretrained(checkpoint)
    try:
        trained = train_tokenizer([text for row in rows for text in row], args).to_str() if main_process else None
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


def heldout_loss(trainer: XlingTrainer) -> float:
    """Mean loss of a masked token of the held-out sentences, in nats, under masks that are the same every time."""
    set_seed(0)
    return trainer.evaluate()["eval_loss"]


def loss_results(losses: dict[str, float], heldout: Sequence[Row], seed: int) -> list[EvalResult]:
    """One row before training, one after."""
    texts = [text for row in heldout for text in row]
    fields = {"n": len(texts), "dataset": "pretraining text", "split": "held out", "unit": "nats", "seed": seed}
    fields["revision"] = content_hash(texts)
    return [EvalResult("masked-token loss", loss, settings={"stage": at}, **fields) for at, loss in losses.items()]


def write_models(folder: Path, config: BertConfig, state: dict, tokenizer, results: list, settings: dict) -> None:
    """Two folders, because no one set of weights loads into both classes without a load report."""
    encoder, masked_lm = BertModel(config), BertForMaskedLM(config)
    masked_lm.load_state_dict(state)
    encoder.load_state_dict(masked_lm.bert.state_dict(), strict=False)  # all but the pooler, which stays untrained
    for name, network in (("masked_lm", masked_lm), ("model", encoder)):
        with atomic_path(folder / name) as scratch:
            network.save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
            write_results(scratch / "results.json", results, recipe=RECIPE, settings=settings)


def summary(model: SparseMaskedLM, tokenizer: PreTrainedTokenizerBase, results: Sequence[EvalResult]) -> str:
    """Size, loss and perplexity at a glance."""
    headers, cells = ["vocabulary", "parameters"], [len(tokenizer), model.num_parameters()]
    for row in results:
        headers += [f"{name} {row.settings['stage']}" for name in ("loss", "perplexity")]
        cells += [row.value, math.exp(row.value)]
    return format_table(headers, [cells])


if __name__ == "__main__":
    run_recipe(main)
