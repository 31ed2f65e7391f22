"""A server's vectors against sentence-transformers': a real one where TEI_URL is set, else one that reads alike.

    text-embeddings-router --model-id FOLDER --port 8080 &
    TEI_URL=http://127.0.0.1:8080 pytest -m serving tests/hub/test_served.py

TEI_MODEL names the folder or Hub id where the server was given another path; TEI_REVISION its branch.
"""

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import numpy as np
import pytest
from methods import METHODS
from sentence_transformers import SentenceTransformer
from served_model import PROBES, ServedModel

from hfxling.hub.served import server_fault
from hfxling.hub.snippets import server_request

TEXTS = [text for text in PROBES if text]
# The server computes GELU by its tanh approximation, and may do so in half precision.
CLOSE = 0.999


def served(url, texts):
    """(N, D) vectors of a server that is asked as cards say."""
    body = server_request(texts).encode()
    with urlopen(Request(f"{url}/embed", body, {"Content-Type": "application/json"}), timeout=60) as answer:
        return np.array(json.load(answer), np.float32)


def served_model(url):
    """What a server says that it was started with."""
    with urlopen(f"{url}/info", timeout=60) as answer:
        return json.load(answer)["model_id"]


def check(url, model, revision=None):
    expected = SentenceTransformer(model, revision=revision, device="cpu").encode(TEXTS)
    found = served(url, TEXTS)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)
    assert (found * expected).sum(1).min() > CLOSE
    return found, expected


@pytest.mark.serving
def test_a_real_server():
    if "TEI_URL" not in os.environ:
        pytest.skip("set TEI_URL to a running text-embeddings-inference server")
    url = os.environ["TEI_URL"].rstrip("/")
    check(url, os.environ.get("TEI_MODEL") or served_model(url), os.environ.get("TEI_REVISION"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root, method, written = tmp_path_factory.mktemp("served"), METHODS["siamese"], {}
    for name in ("raw input", "tanh"):
        folder = root / name.replace(" ", "_")
        model = method.build(root / "scratch" / name, **method.variants[name])
        method.write(model, root / "scratch" / name, folder)
        written[name] = folder
    return written


@pytest.fixture
def stand_in(request, folders):
    """A server on loopback that answers as the real one does, with the vectors of a reader of the same files."""
    model = ServedModel(folders[request.param])

    class Handler(BaseHTTPRequestHandler):
        def answer(self, content):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def do_GET(self):
            self.answer({"model_id": str(folders[request.param])})

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(model(asked["inputs"]).tolist())

        def log_message(self, *args):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("stand_in", ["raw input"], indirect=True)
def test_a_server_is_asked_and_held_against_sentence_transformers(stand_in):
    found, expected = check(stand_in, served_model(stand_in))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("stand_in", ["tanh"], indirect=True)
def test_other_vectors_are_noticed(stand_in, folders):
    assert "Normalize before a Dense" in server_fault(folders["tanh"])
    with pytest.raises(AssertionError):
        check(stand_in, served_model(stand_in))


def test_a_prompt_hides_no_other_fault(folders, tmp_path):
    folder = shutil.copytree(folders["tanh"], tmp_path / "prompt")
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"default_prompt_name": "text"}))
    assert "Normalize before a Dense" in server_fault(folder), "a server that is told the prompt gives other vectors"
