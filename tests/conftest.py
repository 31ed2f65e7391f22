"""Offline by default, one thread, tiny models built in code."""

import gc
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import pytest
import torch
from hub_server import hub, hub_of_all_tests, publisher  # noqa: F401 - fixtures
from short_sample import leave_out_grammar
from warm_python import WarmPython

torch.set_num_threads(1)
gc.set_threshold(100_000)  # what tests import stays, and need not be looked at again and again
ROOT = Path(__file__).resolve().parents[1]
# Of an encoder that transformers lacks, and of a module that sentence-transformers lacks.
OWN_CODE = """from transformers import BertConfig, BertModel

class OwnConfig(BertConfig):
    model_type = "own"

class OwnModel(BertModel):
    config_class = OwnConfig
"""
OWN_MODULE = """from sentence_transformers.sentence_transformer.modules import Normalize

class Unit(Normalize):
    pass
"""


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The measuring data beside the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the measuring data in ../shared/data")
    return folder


@pytest.fixture(autouse=True)
def bars_as_before():
    """Nothing that is run in a test turns the bars off for those after it."""
    from huggingface_hub.utils import are_progress_bars_disabled

    before = are_progress_bars_disabled()
    yield
    assert are_progress_bars_disabled() == before


@pytest.fixture
def refusal(capfd):
    """Calls what must end in one line of error, status 2 and nothing else on stdout; gives that line."""
    from hfxling.console import run as run_recipe

    def refused(call) -> str:
        with pytest.raises(SystemExit) as stop:
            run_recipe(call)
        assert stop.value.code == 2
        said = capfd.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        line = said.err.rstrip("\n").split("\n")[-1]
        assert line.startswith("error: ")
        return line

    return refused


@pytest.fixture
def unreachable_hub(monkeypatch):
    """The client of a Hub that nobody answers for."""
    from huggingface_hub import HfApi

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with socket.socket() as silent:  # its port is taken, and nobody listens there
        silent.bind(("127.0.0.1", 0))
        yield HfApi(endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.fixture(scope="session")
def warm_python() -> Iterator[str]:
    """The path of a Python that starts quickly; see `WarmPython`."""
    with WarmPython() as python:
        yield python.path


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory) -> Path:
    """A random three-layer BERT with a character tokenizer, as a folder."""
    from tiny_models import save_tiny_bert

    return save_tiny_bert(tmp_path_factory.mktemp("tiny_bert"))


@pytest.fixture(scope="session")
def tiny_sentence_transformer(tiny_bert, tmp_path_factory) -> Path:
    """The same with mean pooling, as a folder of sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_bert))
    folder = tmp_path_factory.mktemp("tiny_sentence_transformer")
    SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension())]).save(str(folder))
    return folder


@pytest.fixture(scope="session")
def encoder_with_code(tiny_sentence_transformer, tmp_path_factory) -> Path:
    """The same with an encoder and a module that the libraries lack: their code lies in the folder."""
    folder = tmp_path_factory.mktemp("with_code") / "encoder"
    shutil.copytree(tiny_sentence_transformer, folder)
    (folder / "own.py").write_text(OWN_CODE, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "unit.py").write_text(OWN_MODULE, encoding="utf-8")
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules.append({"idx": 2, "name": "2", "path": "2_Unit", "type": "unit.Unit"})
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "2_Unit").mkdir()
    return folder


@pytest.fixture(scope="module")
def small_sample() -> Iterator[None]:
    """The embedded corpus without the sentences of its grammar, which are most of it."""
    with pytest.MonkeyPatch.context() as patch:
        leave_out_grammar(patch)
        yield


@pytest.fixture
def no_matplotlib(monkeypatch):
    """As where hfxling is installed without its extras."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="module", autouse=True)
def few_objects_to_look_at():
    """Take what imports and earlier tests have left out of the garbage collection that every training asks for."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def ctrl_c():
    """Python's own handler of SIGINT, which a shell's background jobs start without: they ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
