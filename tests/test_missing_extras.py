"""Without the extras: what needs none works, and what needs one says which in one line."""

import subprocess

import pytest

HIDE = """
import importlib.util, sys
hidden = {"accelerate", "datasets", "peft", "evaluate", "matplotlib", "mteb", "gradio", "onnxruntime"}

assert not hidden & {*sys.modules}

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

find_spec = importlib.util.find_spec
def without_hidden(name, package=None):
    return None if name.partition(".")[0] in hidden else find_spec(name, package)
importlib.util.find_spec = without_hidden
sys.meta_path.insert(0, Hide())
"""
MINE = """
import hfxling
source = ["今天下雨。", "明天下雪。", "他在看书。", "我们去北京。"] * 3
target = ["Hôm nay trời mưa.", "Ngày mai có tuyết.", "Anh ấy đang đọc sách.", "Chúng tôi đi Bắc Kinh."] * 3
sides = [[f"{text} {i}" for i, text in enumerate(side)] for side in (source, target)]
assert len(hfxling.align_words(*sides, languages=("zh", "vi"), progress=False).links) == 12
model = hfxling.load_encoder(None, sys.argv[1])
assert model.encode(sides[0], "zh", "query").shape[0] == 12
assert hfxling.mine(*sides, languages=("zh", "vi"), lexical=sys.argv[1], k=3, progress=False).table()
assert hfxling.nearest(sides[0][3:4], candidates=sides[1], lexical=sys.argv[1], progress=False).table()
"""
FIT = """
from hfxling.cli import main
main(["fit", "sample", "--languages", "zh", "vi", "--output", sys.argv[1] + "/out"])
"""


@pytest.fixture(scope="module")
def links(tmp_path_factory):
    """A folder of links."""
    from builders import sentence_pairs

    import hfxling

    folder = tmp_path_factory.mktemp("links") / "model"
    hfxling.save_lexical(hfxling.fit_lexical(*zip(*sentence_pairs(60)), ("zh", "vi"), progress=False), folder)
    return folder


def run(python: str, code: str, argument) -> subprocess.CompletedProcess:
    """A program in a Python that lacks the extras' packages."""
    return subprocess.run([python, "-c", HIDE + code, str(argument)], capture_output=True, text=True)


def test_links_are_used_without_the_extras(links, warm_python):
    program = run(warm_python, MINE, links)
    assert program.returncode == 0, program.stderr


def test_what_needs_an_extra_names_it_in_one_line(warm_python, tmp_path):
    program = run(warm_python, FIT, tmp_path)
    assert program.returncode == 2, program.stderr
    assert program.stderr.splitlines()[-1].endswith(
        "hfxling fit needs the package datasets: pip install 'hfxling[train]'."
    )
