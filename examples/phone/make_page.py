"""A static model of two languages for a phone: a page that needs no server's help, and a folder for model2vec.

python examples/phone/make_page.py outputs/fit/model outputs/phone --ort package/dist --sentences my.vi

README.md beside this file says where the runtime in package/dist comes from.
"""

import argparse
import json
import re
import shutil
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from hfxling.console import run
from hfxling.files import atomic_path, check_place

MEGABYTES = 10  # that a phone loads at most: model.onnx and vocab.json
PAGE = ("index.html", "tokenizer.js")
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")  # of onnxruntime-web
UNKNOWN = "<unk>"
SPECIAL = 4  # ids from 0: <pad>, <unk>, <s>, </s>; their vectors are zero
LONGEST = 1_000  # letters without a space that are cut; the work grows faster than their number
JOINERS = "\u200c\u200d"


def make_page(
    model: Path,
    output: Path,
    *,
    dimensions: int | None = None,
    ort: Path | None = None,
    sentences: Path | None = None,
) -> list[str]:
    """Write the page and its model, and model2vec's folder.

    Args:
        model: folder that `hfxling fit --choose static` or `hfxling.save_lexical` wrote, its languages in one table.
        output: an earlier one is replaced.
        dimensions: components kept, the strongest; by default as many as `MEGABYTES` hold.
        ort: folder with `RUNTIME`; without it the page says that they are missing.
        sentences: that the page begins with, one a line.

    Returns:
        Lines that say how large the parts are.

    Raises:
        ValueError: another kind of model, more dimensions than it has, an output that holds files of somebody else, the
            package onnx is not installed.
        FileNotFoundError: no such folder or file.
    """
    if find_spec("onnx") is None:
        raise ValueError("the page's model.onnx needs the package onnx: pip install 'hfxling[onnx]'.")
    check_place("OUTPUT_FOLDER", output, is_folder=True)
    table, tokenizer = read_static(model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    vocabulary = page_vocabulary(tokenizer, config["languages"])
    missing = [name for name in RUNTIME if ort and not (ort / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{ort} has no {' and no '.join(missing)}: give the folder dist of onnxruntime-web.")
    vocabulary_text = json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":"))
    fitting = (int(MEGABYTES * 1e6) - len(vocabulary_text.encode())) // len(table) - 4  # a scale a row has 4 bytes
    kept = min(fitting, table.shape[1]) if dimensions is None else dimensions
    if not 1 <= kept <= table.shape[1]:
        raise ValueError(
            f"dimensions={kept}: {model} has {table.shape[1]} for {len(table)} pieces; give 1 to all of them."
        )
    codes, scales = in_8_bits(table[:, :kept])
    with atomic_path(output) as scratch:
        scratch.mkdir()
        write_model2vec(codes, scales, word_pieces(tokenizer), scratch / "model2vec")
        write_onnx(codes, scales, scratch / "model.onnx")
        (scratch / "vocab.json").write_text(vocabulary_text, encoding="utf-8")
        (scratch / "sentences.txt").write_bytes(sentences.read_bytes() if sentences else b"")
        for name in PAGE:
            shutil.copyfile(Path(__file__).with_name(name), scratch / name)
        for name in RUNTIME if ort else ():
            (scratch / "ort").mkdir(exist_ok=True)
            shutil.copyfile(ort / name, scratch / "ort" / name)
    return [f"{len(codes):,} pieces of {kept} dimensions", *sizes(output)]


def read_static(folder: Path) -> tuple[np.ndarray, dict]:
    """(V, D) vectors and the content of tokenizer.json.

    Raises:
        FileNotFoundError: no such folder.
        ValueError: no static vectors there, or a table a language.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; give the one that `hfxling fit --choose static` wrote.")
    if (folder / "router_config.json").is_file():
        raise ValueError(
            f"{folder} has a table a language, and the page holds one for both: take languages that their scripts tell "
            "apart (zh-vi, lo-zh, th-zh, lo-th)."
        )
    place = folder / "0_StaticEmbedding"
    if not place.is_dir():
        raise ValueError(f"{folder} has no static vectors (0_StaticEmbedding): fit with `hfxling fit --choose static`.")
    table = load_file(place / "model.safetensors")["embedding.weight"].astype(np.float32)
    return table, json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))


def pieces_of(tokenizer: dict) -> list[str]:
    """The pieces in the order of their ids."""
    vocabulary = tokenizer["model"]["vocab"]
    if tokenizer["model"]["type"] == "Unigram":
        return [piece for piece, _ in vocabulary]
    return sorted(vocabulary, key=vocabulary.get)


def unknown_letters(tokenizer: dict) -> str | None:
    """A pattern of letters that no piece has, at which words are cut; None where words are looked up whole.

    Every letter of the training text is a piece. Signs need no cut: they are words by themselves.
    """
    if tokenizer["model"]["type"] != "Unigram":
        return None
    letters = [piece for piece in pieces_of(tokenizer)[SPECIAL:] if len(piece) == 1]
    spelling = (letter for letter in letters if unicodedata.category(letter)[0] in "LMN" or letter in JOINERS)
    return f"[^{''.join(spelling)}]"


def word_pieces(tokenizer: dict) -> dict:
    """The content of tokenizer.json for the same pieces, cut greedily: the longest that fits, then the next.

    Words that were looked up whole still are: no piece begins as a second one would have to.
    """
    unknown = unknown_letters(tokenizer)
    cuts = [tokenizer["pre_tokenizer"]]
    if unknown:
        cuts.append({"type": "Split", "pattern": {"Regex": unknown}, "behavior": "Isolated", "invert": False})
    model = {
        "type": "WordPiece",
        "unk_token": UNKNOWN,
        "continuing_subword_prefix": "" if unknown else "##",
        "max_input_chars_per_word": LONGEST,
        "vocab": {piece: number for number, piece in enumerate(pieces_of(tokenizer))},
    }
    # Without added tokens: <s> in a text is text.
    changed = {"added_tokens": [], "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts}, "model": model}
    return tokenizer | changed


def page_vocabulary(tokenizer: dict, languages: list[str]) -> dict:
    """What tokenizer.js needs: what NFKC leaves and nobody sees, respellings of small letters, the words, the pieces.

    Patterns are in JavaScript's spelling.

    Raises:
        ValueError: a tokenizer that does something else.
    """
    try:
        nfkc, *steps = tokenizer["normalizer"]["normalizers"]
        # Models that were fitted before invisible characters were left out lack the step; [] is nothing.
        invisible = steps.pop(0)["pattern"]["Regex"] if steps[0]["type"] == "Replace" else "[]"
        lower, *others = steps
        respelled = [[step["pattern"]["String"], step["content"]] for step in others]
        cut = tokenizer["pre_tokenizer"]
        words = re.sub(r"\\p\{(\w{3,})\}", r"\\p{Script=\1}", cut["pattern"]["Regex"])
        kinds = (nfkc["type"], lower["type"], cut["type"], cut["invert"], tokenizer["model"]["type"])
    except (KeyError, TypeError, ValueError):
        kinds = ()
    if kinds not in [("NFKC", "Lowercase", "Split", True, kind) for kind in ("Unigram", "WordLevel")]:
        raise ValueError(
            "the model's tokenizer is none of hfxling's for two languages of one table; fit the model anew."
        )
    return {
        "languages": languages,
        "invisible": invisible,
        "respelled": respelled,
        "words": words,
        "unknown": unknown_letters(tokenizer),
        "longest": LONGEST,
        "pieces": pieces_of(tokenizer),
    }


def in_8_bits(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V, D) int8 and (V,) float32 scales, whose product is the table but for rounding."""
    scales = np.abs(table).max(axis=1) / 127
    codes = np.rint(table / np.where(scales > 0, scales, 1)[:, None])
    return codes.astype(np.int8), scales.astype(np.float32)


def write_model2vec(codes: np.ndarray, scales: np.ndarray, tokenizer: dict, folder: Path) -> None:
    """What `model2vec.StaticModel.from_pretrained` reads; the scales are its weights."""
    folder.mkdir()
    Tokenizer.from_str(json.dumps(tokenizer)).save(str(folder / "tokenizer.json"))
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "max_length": None}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file({"embeddings": codes, "weights": scales}, folder / "model.safetensors")


def write_onnx(codes: np.ndarray, scales: np.ndarray, path: Path) -> None:
    """Write the graph: input_ids, (B, S) int32, to sentence_embedding, (B, D) float32 of length 1.

    Shorter rows end in zeros, the id of <pad>, whose vector is zero; a text without a known piece has the vector zero.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = {
        "table": codes,
        "scales": scales[:, None],
        "pieces_axis": np.array([1], np.int64),
        "least": np.array(1e-12, np.float32),
    }
    steps = [
        helper.make_node("Gather", ["table", "input_ids"], ["codes"]),
        helper.make_node("Gather", ["scales", "input_ids"], ["scale"]),
        helper.make_node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "scale"], ["vectors"]),
        helper.make_node("ReduceSum", ["vectors", "pieces_axis"], ["sum"], keepdims=0),
        helper.make_node("ReduceL2", ["sum"], ["norm"], axes=[-1], keepdims=1),
        helper.make_node("Max", ["norm", "least"], ["length"]),
        helper.make_node("Div", ["sum", "length"], ["sentence_embedding"]),
    ]
    graph = helper.make_graph(
        steps,
        "static",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "pieces"])],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", codes.shape[1]])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), path)


def sizes(folder: Path) -> list[str]:
    """A line for each part, what the page loads and model2vec's folder."""
    parts = {
        "model.onnx and vocab.json": [folder / "model.onnx", folder / "vocab.json"],
        "model2vec": [*(folder / "model2vec").iterdir()],
        "ort": [*(folder / "ort").glob("*")],
    }
    return [
        f"{name}: {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB" for name, paths in parts.items() if paths
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL_FOLDER")
    parser.add_argument("output", type=Path, metavar="OUTPUT_FOLDER")
    parser.add_argument("--dimensions", type=int, help=f"components kept; by default what {MEGABYTES} MB hold")
    parser.add_argument("--ort", type=Path, help="folder dist of onnxruntime-web, of which two files are copied")
    parser.add_argument("--sentences", type=Path, help="text that the page begins with, one sentence a line")
    options = vars(parser.parse_args())
    print("\n".join([*make_page(**options), f"page: {options['output']}/index.html"]))


if __name__ == "__main__":
    run(main)
