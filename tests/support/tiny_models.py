"""Small random encoders of the real classes, with tokenizers built in code."""

import math
import string
from itertools import product
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MT5Config,
    MT5EncoderModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3Model,
    XLMConfig,
    XLMModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from hfxling.models import AlignerConfig, AlignerModel

HIDDEN = 16


def tiny_tokenizer(max_length: int = 32) -> PreTrainedTokenizerFast:
    """One piece a character (a few Han and Vietnamese letters among them), [UNK] for the rest."""
    characters = [
        *string.ascii_letters,
        *string.digits,
        *" .,?!",
        *"我爱吃苹果你好今天下雨的是在有人不了",
        *"ôêđáàạảãíìọủưăâ",
    ]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(characters)]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=max_length,
    )


def tiny_encoder(kind: str, layers: int = 3):
    """A seeded random encoder of the named family."""
    torch.manual_seed(0)
    size = len(tiny_tokenizer())
    common = {"vocab_size": size, "num_hidden_layers": layers, "num_attention_heads": 2, "intermediate_size": 24}
    if kind == "bert":
        return BertModel(BertConfig(**common, hidden_size=HIDDEN, max_position_embeddings=40)).eval()
    if kind == "xlm-roberta":
        config = XLMRobertaConfig(**common, hidden_size=HIDDEN, max_position_embeddings=40, pad_token_id=0)
        return XLMRobertaModel(config).eval()
    if kind == "distilbert":
        config = DistilBertConfig(
            vocab_size=size, n_layers=layers, n_heads=2, dim=HIDDEN, hidden_dim=24, max_position_embeddings=40
        )
        return DistilBertModel(config).eval()
    if kind == "xlm":
        config = XLMConfig(
            vocab_size=size, n_layers=layers, n_heads=2, emb_dim=HIDDEN, max_position_embeddings=40, pad_index=0
        )
        return XLMModel(config).eval()
    if kind == "mt5":
        config = MT5Config(
            vocab_size=size, num_layers=layers, num_heads=2, d_model=HIDDEN, d_kv=8, d_ff=24, is_encoder_decoder=False
        )
        return MT5EncoderModel(config).eval()
    if kind == "qwen3":  # a decoder with rotary positions, of another base than the default
        config = Qwen3Config(
            **common, hidden_size=HIDDEN, head_dim=8, num_key_value_heads=1, max_position_embeddings=64,
            rope_parameters={"rope_type": "default", "rope_theta": 50.0},
        )  # fmt: skip
        return Qwen3Model(config).eval()
    raise ValueError(kind)


def save_tiny(kind: str, folder: Path, layers: int = 3) -> Path:
    """The encoder and its tokenizer as a folder; decoders are padded on the left."""
    tiny_encoder(kind, layers).save_pretrained(folder)
    tokenizer = tiny_tokenizer()
    if kind == "qwen3":
        tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_bert(folder: Path) -> Path:
    """A tiny BERT folder."""
    return save_tiny("bert", folder)


def save_routed(encoder: Path, folder: Path, routes: tuple[str, ...] = ("zh", "vi")) -> Path:
    """A SentenceTransformer with random maps as routes; queries take the first, documents the second one."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Router, Transformer

    torch.manual_seed(3)
    parts = {name: [Dense(HIDDEN, HIDDEN, activation_function=None)] for name in routes}
    mappings = {("query", "text"): routes[0], ("document", "text"): routes[1]}
    router = Router(parts, default_route=routes[0], route_mappings=mappings)
    SentenceTransformer(modules=[Transformer(str(encoder)), Pooling(HIDDEN, "mean"), router]).save_pretrained(
        str(folder)
    )
    return folder


def tiny_aligner(vocabularies: dict, **settings) -> AlignerModel:
    """An untrained aligner of these vocabularies, always the same."""
    tables = {lang: torch.from_numpy(vocabulary.piece_ids()[0]) for lang, vocabulary in vocabularies.items()}
    torch.manual_seed(0)
    config = AlignerConfig(
        vocab_sizes={lang: len(vocabulary) for lang, vocabulary in vocabularies.items()},
        piece_vocab_size=next(iter(vocabularies.values())).piece_model.get_vocab_size(),
        pieces_per_word=max(table.shape[1] for table in tables.values()),
        **{"size": 8} | settings,
    )
    return AlignerModel(config, tables).eval()


def save_static(folder: Path) -> list[str]:
    """A static model of three words in Chinese letters, and texts of these, no two of which have one direction.

    Of all other text it knows nothing: its vector is zero.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "今": 1, "天": 2, "雨": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[一-鿿]|\w+"), "isolated")
    table = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    table[0] = 0  # of a word that it does not know
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)]).save(str(folder))
    counts = [each for each in product(range(4), repeat=3) if math.gcd(*each) == 1]
    return [f"{'今' * i}{'天' * j}{'雨' * k}" for i, j, k in counts]
