"""Contextual sentence vectors of a word aligner as a sentence-transformers module.

A published aligner has this file in its folder `contextual`, whose modules.json names it; weights and tokenizers are
those of the folder above. It needs `trust_remote_code=True`, as every module from outside sentence-transformers does.
"""

from pathlib import Path

from sentence_transformers.base.modules.input_module import InputModule
from torch import Tensor
from transformers import AutoModel, AutoTokenizer


class AlignerSentences(InputModule):
    """Mean of the contextual word vectors of a text; `task` says which language it is in.

    Args:
        model: an `AlignerModel`.
        tokenizers: of its languages; the first two are those of `encode_query` and `encode_document`.
    """

    modalities: list[str] = ["text"]  # noqa: RUF012 - as the base class has it
    forward_kwargs = {"task"}  # noqa: RUF012
    save_in_root = True

    def __init__(self, model, tokenizers: dict):
        super().__init__()
        self.model, self.tokenizers = model, tokenizers

    def preprocess(self, inputs: list[str], prompt: str | None = None, task: str | None = None, **kwargs) -> dict:
        """Word ids of texts of one language.

        Raises:
            ValueError: no language, or one that the model lacks.
        """
        languages = list(self.tokenizers)
        language = dict(zip(("query", "document"), languages)).get(task, task)
        if language not in self.tokenizers:
            raise ValueError(f"task={task!r}: give the language of the texts as task, one of {', '.join(languages)}.")
        texts = [(prompt or "") + text for text in inputs]
        batch = self.tokenizers[language](texts, padding=True, padding_side="right", return_tensors="pt")
        return {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "language": language}

    def forward(self, features: dict, **kwargs) -> dict[str, Tensor]:
        """Add "sentence_embedding", (B, H) unit vectors."""
        inputs = {key: features[key] for key in ("input_ids", "attention_mask", "language")}
        features["sentence_embedding"] = self.model(**inputs).sentence_embedding
        return features

    def get_embedding_dimension(self) -> int:
        """H."""
        return self.model.config.size

    @property
    def tokenizer(self) -> dict:
        """The tokenizers by language."""
        return self.tokenizers

    def save(self, output_path: str, *args, **kwargs) -> None:
        """Write model and tokenizers into the folder."""
        self.model.save_pretrained(output_path)
        for language, tokenizer in self.tokenizers.items():
            tokenizer.save_pretrained(Path(output_path) / f"tokenizer_{language}")

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs) -> "AlignerSentences":
        """Read model and tokenizers from the folder, or from the one above it."""
        folder = Path(model_name_or_path).resolve()
        folder = folder if (folder / "model.safetensors").is_file() else folder.parent
        model = AutoModel.from_pretrained(folder, trust_remote_code=True)
        tokenizers = {
            language: AutoTokenizer.from_pretrained(folder, subfolder=f"tokenizer_{language}")
            for language in model.config.languages
        }
        return cls(model.eval(), tokenizers)
