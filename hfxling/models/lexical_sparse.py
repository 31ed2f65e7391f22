"""A lexical model's sparse vectors as a sentence-transformers module.

A published model has this file in its folder `sparse`, and on the Hub in the root of its branch `sparse`. It needs
`trust_remote_code=True`, as every module from outside sentence-transformers does.
"""

from pathlib import Path

import torch
from sentence_transformers.base.modules.input_module import InputModule
from torch import Tensor
from transformers import AutoModel

ROLES = ("query", "document")


class Tokenizers(dict):
    """The tokenizers of every language, and the names of dimensions that `SparseEncoder.decode` asks for.

    Args:
        model: a `LexicalModel` with its tokenizers.
    """

    def __init__(self, model):
        super().__init__(model.tokenizers)
        self.model = model

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """What dimensions stand for: a segment of a language as "zh:科学", or a part that no words make."""
        names = self.model.dimension_names()
        return [names[number] for number in ids]


class LexicalSparse(InputModule):
    """Links of a text as its vector, to be compared by inner product.

    `encode_query` reads the first language and `encode_document` the second, or the one given as `language=`;
    `encode(task="vi")` reads that language, the first one as queries and any other as documents.

    Args:
        model: a `LexicalModel` with its tokenizers.
    """

    modalities: list[str] = ["text"]  # noqa: RUF012 - as the base class has it
    forward_kwargs = {"task", "language", "max_active_dims"}  # noqa: RUF012
    save_in_root = True

    def __init__(self, model):
        super().__init__()
        self.model = model

    def preprocess(
        self,
        inputs: list[str],
        prompt: str | None = None,
        task: str | None = None,
        language: str | None = None,
        **kwargs,
    ) -> dict:
        """Texts of one language and role.

        Raises:
            ValueError: no language, or one that the model lacks.
        """
        languages = self.model.config.languages
        if task in ROLES:
            role = task
            language = language or languages[ROLES.index(task)]
        else:
            role = "query" if task == languages[0] else "document"
            language = language or task
        if language not in languages:
            raise ValueError(f"task={task!r}: give the language of the texts as task, one of {', '.join(languages)}.")
        return {"texts": [(prompt or "") + text for text in inputs], "language": language, "role": role}

    def forward(self, features: dict, max_active_dims: int | None = None, **kwargs) -> dict[str, Tensor]:
        """Add "sentence_embedding", (B, D) and mostly zeros."""
        vectors = self.model.encode(
            features["texts"], features["language"], features["role"], max_active_dims=max_active_dims
        )
        features["sentence_embedding"] = torch.from_numpy(vectors.toarray()).to(self.model.device)
        return features

    def get_embedding_dimension(self) -> int:
        """D."""
        return self.model.config.hidden_size

    @property
    def tokenizer(self) -> Tokenizers:
        """The tokenizers of every language."""
        return Tokenizers(self.model)

    def save(self, output_path: str, *args, **kwargs) -> None:
        """Write the model into the folder."""
        self.model.save_pretrained(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs) -> "LexicalSparse":
        """Read the model from a folder, the one above it, or the Hub."""
        folder = Path(model_name_or_path)
        if folder.is_dir() and not (folder / "model.safetensors").is_file():
            model_name_or_path = str(folder.resolve().parent)
        options = {}
        for name in ("revision", "token", "cache_folder", "local_files_only"):
            if kwargs.get(name):
                options["cache_dir" if name == "cache_folder" else name] = kwargs[name]
        return cls(AutoModel.from_pretrained(model_name_or_path, trust_remote_code=True, **options).eval())
