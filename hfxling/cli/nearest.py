"""The nearest translations of sentences, by a published model folder or Hub repository.

python recipes/nearest.py --model outputs/quickstart/zh-vi-sf/model "今天下雨。" [--candidates FILE] [--top 3]
"""

import argparse
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.util import semantic_search

from hfxling.arguments import run_recipe
from hfxling.data.sample import LANGUAGES, sample_texts


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", nargs="+", help="in the model's source language")
    parser.add_argument("--model", required=True, help="folder or Hub id")
    parser.add_argument("--candidates", help="text file, one sentence a line; by default the sample corpus' test text")
    parser.add_argument("--target_lang", help="language of the candidates; by default the model's second language")
    parser.add_argument("--top", type=int, default=3, help="translations shown for each sentence")
    args = parser.parse_args(argv)

    model = SentenceTransformer(args.model)
    languages = model[0].model.config.siamese["languages"]
    candidates = read_candidates(args.candidates, args.target_lang or languages[1])
    found = semantic_search(model.encode_query(args.sentences), model.encode_document(candidates), top_k=args.top)
    for sentence, hits in zip(args.sentences, found):
        print(f"\n{sentence}")
        for hit in hits:
            print(f"  {hit['score']:.3f}  {candidates[hit['corpus_id']]}")


def read_candidates(path: str | None, target_lang: str | None) -> list[str]:
    """Lines of a file, or the embedded corpus' test sentences of the language."""
    if path is None:
        if target_lang not in LANGUAGES:
            raise ValueError(f"target_lang={target_lang!r} is not in the sample corpus; give --candidates FILE.")
        return sample_texts(target_lang, "test")
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").split("\n")]
    if not any(lines):
        raise ValueError(f"{path}: no sentence in it; give one sentence a line.")
    return [line for line in lines if line]


if __name__ == "__main__":
    run_recipe(main)
