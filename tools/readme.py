"""README from top to bottom, as somebody does who has nothing but the wheel: an empty environment and an empty folder.

python tools/readme.py [--page docs/index.md] [--part "I have pairs"] [--model FOLDER] [--share]

Builds the wheel, installs it with the extras that the page names, and runs every block of it in its order: a shell's
commands one by one, each block of Python in a process of its own. Only the first way to install is taken. --part runs
what stands before the first heading of the second level, and what stands under this one. Models of the Hub are looked
for there; --model puts this one in their place. --share takes installed packages of this Python instead of fetching
them anew. Prints the seconds of each block, and ends with status 1 at the first one that fails.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACEHOLDERS = ("sentence-transformers/LaBSE", "intfloat/multilingual-e5-small")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--page", type=Path, default=ROOT / "README.md", help="by default README")
    options.add_argument("--part", help="heading of the only part that is run, after what stands before all parts")
    options.add_argument("--model", type=Path, help="folder that stands for the models of the Hub")
    options.add_argument("--share", action="store_true", help="packages of this Python instead of new ones")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "place"
        place.mkdir()
        if args.model:
            for name in PLACEHOLDERS:
                (place / name).parent.mkdir(exist_ok=True)
                (place / name).symlink_to(args.model.resolve())
        wheel = built_wheel(Path(temporary))
        print(f"wheel: {wheel.stat().st_size:,} bytes", flush=True)
        scripts = Path(temporary) / "venv" / "bin"
        venv.create(scripts.parent, with_pip=True, system_site_packages=False)
        if args.share:
            share_packages(scripts)
        for number, (language, text) in enumerate(blocks(args.page, args.part), 1):
            begun = time.perf_counter()
            for words in commands(language, text, wheel, scripts, args.share):
                run(words, place, scripts)
            print(f"{number}. {language}: {time.perf_counter() - begun:.0f} s", flush=True)


def built_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(words, check=True)
    (wheel,) = folder.glob("hfxling-*.whl")
    return wheel


def share_packages(scripts: Path) -> None:
    """Let the new environment see this Python's packages behind its own."""
    here, there = (packages_of(python) for python in (Path(sys.executable), scripts / "python"))
    (there / "shared.pth").write_text(f"{here}\n")


def packages_of(python: Path) -> Path:
    """Where a Python has its packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())


def blocks(page: Path, part: str | None = None) -> list[tuple[str, str]]:
    """Language and text of a page's blocks; of one part, those before all parts and its own."""
    text = page.read_text(encoding="utf-8")
    if part is not None:
        begin, *parts = re.split("^## ", text, flags=re.MULTILINE)
        by_heading = {each.partition("\n")[0]: each for each in parts}
        if part not in by_heading:
            sys.exit(f"{page} has no part {part!r}, but {', '.join(by_heading)}")
        text = begin + by_heading[part]
    return re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(language: str, text: str, wheel: Path, scripts: Path, is_shared: bool) -> list[list[str]]:
    """The processes of a block; the package to install is the wheel."""
    python = str(scripts / "python")
    if language == "python":
        return [[python, "-c", text]]
    lines = text.replace("\\\n", " ").splitlines()
    if language == "console":  # the other lines are output
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    words = []
    for line in lines:
        if extras := re.fullmatch(r"pip install 'hfxling(\[.*\])'", line):
            how = ["--no-deps", "--force-reinstall"] if is_shared else ["-c", str(ROOT / "constraints.txt")]
            words.append([python, "-m", "pip", "install", "--quiet", *how, f"{wheel}{extras[1]}"])
        elif line.startswith(("uv pip install", "pipx install")):
            continue
        elif line.strip():
            words.append(["bash", "-c", line])
    return words


def run(words: list[str], place: Path, scripts: Path) -> None:
    """Run a process in the folder; what it printed is shown where it fails."""
    path = os.pathsep.join([str(scripts), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words[-1]}\n{done.stdout}\n{done.stderr}\nended with {done.returncode}")


if __name__ == "__main__":
    main()
