"""Vectors of a published encoder, kept by text: several benchmarks, pairs of languages and runs share them."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from hfxling.encoders.dense import SentenceEncoder
from hfxling.files import content_hash

CHUNK = 256  # texts after which a run that is stopped goes on


class StoredVectors:
    """What an encoder makes of texts, each encoded once and for all.

    Args:
        encoder: a SentenceEncoder, with the same vectors of every language and role.
        cache_dir: folder of the file.
        dtype: of the encoder's products: "float32", or "bfloat16", which takes half the time where the processor has
            such instructions. With bfloat16 mE5-small's vectors, less their mean, have cosines of .9999 or more with
            those in float32 (256 lines of NTREX, Chinese and Thai).
    """

    def __init__(self, encoder: SentenceEncoder, cache_dir: str | Path, dtype: str = "float32"):
        self.encoder = encoder
        self.dtype = dtype
        name = content_hash([encoder.revision, str(encoder.prompt), dtype])
        folder = Path(cache_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.file = sqlite3.connect(folder / f"vectors_{name}.sqlite", timeout=600)
        self.file.execute("CREATE TABLE IF NOT EXISTS vectors (text TEXT PRIMARY KEY, vector BLOB) WITHOUT ROWID")

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) float32 vectors."""
        found = self._read(texts)
        missing = sorted({*texts} - {*found}, key=lambda text: (len(text), text))
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            vectors = self._encoded(part)
            rows = [(text, vector.tobytes()) for text, vector in zip(part, vectors)]
            with self.file:
                self.file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            found.update(zip(part, vectors))
        return np.stack([found[text] for text in texts]) if len(texts) else np.zeros((0, self.encoder.dimension))

    def _read(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        found = {}
        for text in dict.fromkeys(texts):
            row = self.file.execute("SELECT vector FROM vectors WHERE text = ?", (text,)).fetchone()
            if row is not None:
                found[text] = np.frombuffer(row[0], np.float32)
        return found

    def _encoded(self, texts: list[str]) -> np.ndarray:
        if self.dtype == "float32":
            return self._plainly_encoded(texts)
        with torch.autocast(self.encoder.model.device.type, torch.bfloat16):
            return self._plainly_encoded(texts)

    def _plainly_encoded(self, texts: list[str]) -> np.ndarray:
        return self.encoder.encode(texts, None, "query", progress=False).astype(np.float32)
