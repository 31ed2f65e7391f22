"""How to use a model that you found: three translations among the test text, and the words behind one score.

python examples/quickstart.py outputs/quickstart/model
"""

import csv
import sys
from pathlib import Path

from sentence_transformers import SentenceTransformer

CORPUS = Path(__file__).resolve().parents[1] / "hfxling" / "data" / "sample" / "sentences.tsv"
QUERIES = ["司机不肯打表。", "我爷爷在哪里学习历史？", "我弟弟对花生过敏。"]
PAIR = QUERIES[0], "Tài xế không chịu bật đồng hồ tính tiền."


def main(folder: str) -> None:
    """Print the nearest Vietnamese sentence for each query, and the words that make the score of a pair."""
    with CORPUS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        candidates = [row["vi"] for row in rows]
    model = SentenceTransformer(folder)
    scores = model.similarity(model.encode_query(QUERIES), model.encode_document(candidates))
    for query, row in zip(QUERIES, scores):
        best = int(row.argmax())
        print(f"{query}\n  {float(row[best]):.3f}  {candidates[best]}")

    import hfxling  # up to here sentence-transformers is enough

    print(hfxling.explain(*PAIR, model=folder).table())


if __name__ == "__main__":
    main(sys.argv[1])
