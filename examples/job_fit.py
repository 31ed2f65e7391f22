# /// script
# requires-python = ">=3.11"
# dependencies = ["hfxling[train]"]
# ///
"""Fit a model on pairs of the Hub on a rented machine, and publish it.

hf jobs uv run --flavor cpu-upgrade --secrets HF_TOKEN examples/job_fit.py ORG/PAIRS zh vi you/zh-vi-links cc-by-4.0

A fifth word names an encoder, such as intfloat/multilingual-e5-small; then heads and fine-tuning compete, too.
"""

import sys

import hfxling


def main(words: list[str]) -> None:
    data, source, target, repo, licence, *encoder = words
    found = hfxling.select(
        data,
        languages=(source, target),
        model=encoder[0] if encoder else None,
        repo=repo,
        licence=licence,
        output="outputs/job",
    )
    print(found.table())
    print(hfxling.publish("outputs/job/model", repo=repo).table())


if __name__ == "__main__":
    main(sys.argv[1:])
