# /// script
# requires-python = ">=3.11"
# dependencies = ["hfxling[train]"]
# ///
"""Mine sentence pairs from two texts of the Hub on a rented machine, and publish them as a data set.

hf jobs uv run --flavor cpu-upgrade --secrets HF_TOKEN examples/job_mine.py \
  ORG/NEWS_ZH#text ORG/NEWS_VI#text zh vi you/zh-vi-links you/zh-vi-mined cc-by-4.0
"""

import sys

import hfxling


def main(words: list[str]) -> None:
    first, second, source, target, lexical, repo, licence = words
    mined = hfxling.mine(first, second, languages=(source, target), lexical=lexical)
    mined.save("mined.tsv")
    print(mined.table())
    published = hfxling.publish("mined.tsv", repo=repo, dataset=True, languages=(source, target), licence=licence)
    print(published.table())


if __name__ == "__main__":
    main(sys.argv[1:])
