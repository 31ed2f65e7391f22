"""hfxling: cross-lingual sentence embeddings and word alignment for language pairs that large models serve badly.

Public names are loaded when they are first used, so that importing the package is cheap. The methods' classes register
themselves with transformers when they are loaded.
"""

from importlib import import_module

__version__ = "0.1.0"

_PUBLIC = {
    **dict.fromkeys(
        (
            *("AlignerConfig", "AlignerModel", "DapConfig", "DapForPreTraining", "DapModel"),
            *("DisentanglerConfig", "DisentanglerModel", "LexicalConfig", "LexicalModel", "SiameseConfig"),
            "SiameseModel",
        ),
        "hfxling.models",
    ),
    **dict.fromkeys(
        ("fit_aligner", "fit_disentangler", "fit_head", "fit_lexical", "save_aligner", "save_lexical"), "hfxling.fit"
    ),
    "bootstrap": "hfxling.sentences.bootstrap",
    "clean": "hfxling.sentences.clean",
    "compare": "hfxling.evaluation.compare",
    "demo": "hfxling.hub.demo",
    "evaluate": "hfxling.evaluation.evaluate",
    "encode": "hfxling.sentences.encode",
    "explain": "hfxling.sentences.explain",
    "align_documents": "hfxling.sentences.align_documents",
    "align_words": "hfxling.words.align_words",
    "export": "hfxling.hub.export",
    "lexicon": "hfxling.words.lexicon",
    "mine": "hfxling.sentences.mine",
    "nearest": "hfxling.sentences.nearest",
    "quality": "hfxling.evaluation.quality",
    "select": "hfxling.selection.select",
    "publish": "hfxling.hub.publish",
    "verify": "hfxling.hub.verify",
    "load_encoder": "hfxling.encoders.loading",
    "load_parallel": "hfxling.data.parallel",
    "filter_parallel": "hfxling.data.filters",
    "drop_leaks": "hfxling.data.leakage",
    "check_coverage": "hfxling.data.coverage",
    "load_vectors": "hfxling.data.features",
    "FrozenEncoder": "hfxling.encoders.frozen",
    "EvalResult": "hfxling.evaluation.results",
    "retrieval_results": "hfxling.evaluation.retrieval",
    "RetrievalEvaluator": "hfxling.evaluation.evaluators",
    "MiningEvaluator": "hfxling.evaluation.evaluators",
    "metric_path": "hfxling.evaluation.metrics",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
