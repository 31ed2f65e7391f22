"""Models that are missing or damaged and devices that are not there: one line, and the whole error behind it."""

import json
from pathlib import Path

import pytest
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.missing import check_device, check_model, one_line_where_missing


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SafetensorError("header too large"), "cannot be read as a model (SafetensorError: header too large); fetch"),
        (
            KeyError("types"),
            "cannot be read as a model (KeyError: 'types'); fetch or publish it again, or name another.",
        ),
        (json.JSONDecodeError("Expecting value", "", 0), "cannot be read as a model (Expecting value: line 1 column 1"),
        (ValueError("many\nlines"), "cannot be read as a model (many); fetch"),
        (ValueError("x" * 999), f"cannot be read as a model ({'x' * 200}...); fetch"),
        (RecursionError("deep"), "cannot be read as a model (RecursionError: deep)"),
        (OSError("no file\nof it"), "is neither the folder of a model nor found on the Hub (no file); check"),
    ],
)
def test_whatever_a_library_says_becomes_one_line(error, message):
    with pytest.raises((ValueError, FileNotFoundError)) as told, one_line_where_missing("my/model", "model", "a model"):
        raise error
    assert str(told.value).startswith("model='my/model' ")
    assert message in str(told.value)
    assert "\n" not in str(told.value)
    assert told.value.__cause__ is error  # for --traceback


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (5, "model is of type int: give a folder, a Hub id or a loaded Path or KeyError."),
        (["a/b"], "model is of type list: give"),
        (type("LexicalModel", (), {})(), "; give a loaded LexicalModel as lexical."),
    ],
)
def test_what_is_no_model_is_told_by_its_type(model, message):
    with pytest.raises(ValueError) as told:
        check_model("model", model, Path, KeyError)
    assert message in str(told.value)
    for name in ("a/b", Path("a"), KeyError()):
        check_model("model", name, KeyError)


def test_verbs_refuse_what_is_no_model():
    texts = {"source": ["a"], "target": ["b"], "languages": ("en", "de")}
    calls = [
        lambda: hfxling.encode(["a"], model={}),
        lambda: hfxling.nearest(["a"], candidates=["b"], model={}),
        lambda: hfxling.align_words(**texts, model={}),
        lambda: hfxling.lexicon(**texts, model={}),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="model is of type dict: give a folder, a Hub id or a loaded Sentence"):
            call()


def raise_in(module: str, error: Exception):
    """Raise it as a function of a module does."""
    exec("def fail(error):\n    raise error\nfail(error)", {"__name__": module, "error": error})


def test_our_own_lines_pass():
    with pytest.raises(ValueError, match=r"^a tokenizer's line of 5 tokens\.$"), one_line_where_missing("my/model"):
        raise_in("hfxling.models.any", ValueError("a tokenizer's line of 5 tokens."))
    with pytest.raises(ValueError, match="cannot be read as"), one_line_where_missing("my/model"):
        raise_in("transformers.any", ValueError("a tokenizer's line of 5 tokens."))
    with pytest.raises(ValueError, match="cannot be read as"), one_line_where_missing("my/model"):
        raise_in("hfxling.models.any", KeyError("a fault of ours"))
    with pytest.raises(KeyboardInterrupt), one_line_where_missing("my/model"):
        raise KeyboardInterrupt


SPOILT = [
    ("model.safetensors", b""),
    ("model.safetensors", b"\xff" * 99),
    ("config.json", b"[]"),
    ("config.json", b"[" * 100_000),
    ("tokenizer.json", b"null"),
    ("tokenizer.json", None),
    ("modules.json", b"{"),
    ("1_Pooling/config.json", b"\xff\xfe"),
]


@pytest.mark.parametrize(("name", "content"), SPOILT)
def test_a_spoilt_folder_is_one_line(name, content, tiny_sentence_transformer, tmp_path):
    folder = tmp_path / "model"
    SentenceTransformer(str(tiny_sentence_transformer)).save(str(folder))
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    loaders = [SentenceEncoder] if "/" in name or name == "modules.json" else [SentenceEncoder, FrozenEncoder]
    for load in loaders:
        with pytest.raises(
            (ValueError, FileNotFoundError), match=r"model.*(cannot be read as|is neither|config\.json|weights cannot)"
        ):
            load(str(folder), **({"views": [(1, "mean")]} if load is FrozenEncoder else {}))


@pytest.mark.parametrize("device", ["banana", "cuda:77", "xla"])
def test_devices(device, tiny_sentence_transformer):
    check_device(None)
    check_device("cpu")
    with pytest.raises(ValueError, match=f"^device={device!r} is not available; this machine has cpu"):
        check_device(device)
    for load in (SentenceEncoder, FrozenEncoder):
        with pytest.raises(ValueError, match=f"^device={device!r}"):
            load(str(Path(tiny_sentence_transformer)), device=device)
