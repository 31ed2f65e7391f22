"""How users see messages, warnings and errors: as lines, without a traceback."""

from __future__ import annotations

import atexit
import errno
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hfxling.missing import EXTRAS
from hfxling.progress import hide_loading_bars

# Errors of `torch.save` if its file cannot take more bytes; they name no reason.
_TORCH_CANNOT_WRITE = ("iostream error", "unexpected pos")
_REMEDIES = {
    errno.ENOENT: "there is no such file or folder; check the path.",
    errno.EISDIR: "is a folder; name a file.",
    errno.ENOTDIR: "there is a file where a folder is needed; name another place.",
    errno.EEXIST: "there is a file where a folder is needed; name another place.",
    errno.ENOTEMPTY: "is a folder that is not empty; name another place.",
    errno.EACCES: "may not be read or written by this user; change its permissions or name another place.",
    errno.EPERM: "may not be read or written by this user; change its permissions or name another place.",
    errno.EROFS: "is on a read-only disk; name another place.",
    errno.ENAMETOOLONG: "is too long for a file name; give a shorter one.",
    errno.ENOSPC: "the disk is full; make room, or name another place.",
    errno.EDQUOT: "the disk is full; make room, or name another place.",
}


def run(main: Callable[[], Any], argv: Sequence[str] | None = None) -> None:
    """Run a recipe or a command; this is the one place that decides how messages and errors are shown.

    Messages of the logger "hfxling" go to standard error. Errors that a user can cause (ValueError, and the system's
    errors about files) end in one line and exit status 2, other errors in one line and status 1. `--traceback` in
    `argv` (by default that of the process) shows the whole error, `--verbose` more messages. Ctrl-C, SIGTERM and a
    closed pipe end quietly, with status 130, 143 and 141 as in a shell, and unfinished output is removed. Text is
    printed as UTF-8 in any locale. Passwords and tokens are removed from the messages of all libraries.
    """
    words = sys.argv if argv is None else argv
    _prepare_streams()
    _end_on_sigterm()
    logger, handler = logging.getLogger("hfxling"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Message())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if "--verbose" in words else logging.INFO)
    logging.getLogger("transformers.trainer_utils").addFilter(_is_of_use)
    hide_loading_bars()
    record_of_any_logger = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_record_without_secrets)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            main()
        if sys.stdout is not None:
            sys.stdout.flush()
        _leave_together()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _drop_unwritten()
        sys.exit(141)
    except Exception as error:
        line = _line_of(error)
        if "--traceback" in words:
            sys.stderr.write(without_secrets(traceback.format_exc()))
        else:
            unknown = [*traceback.format_exception_only(error), "(--traceback shows all)"]
            logger.error(" ".join((line or " ".join(unknown)).split()))
        _drop_unwritten()
        sys.exit(2 if line else 1)
    finally:
        logger.removeHandler(handler)
        logging.setLogRecordFactory(record_of_any_logger)


def _leave_together() -> None:
    """With several processes, wait until all are here, and end at once.

    gloo's threads outlive the process group, and can crash an interpreter that shuts down slowly.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    distributed.barrier()
    atexit._run_exitfuncs()  # `os._exit` runs none
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _prepare_streams() -> None:
    """Make standard output and error take text of any language in any locale; replace a closed error stream."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            # Without `errors`, stderr would become strict and fail on what it cannot encode instead of escaping it.
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _drop_unwritten() -> None:
    """Discard what cannot be written to standard output; the interpreter's last flush would complain about it."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_on_sigterm() -> None:
    """Make SIGTERM end the process like Ctrl-C, so that temporary files are removed."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sys.unraisablehook = partial(_end_again, sys.unraisablehook)


def _end_again(before: Callable, unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again that came in a callback that swallows exceptions, such as that of a weak reference."""
    number = None
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(unraisable.exc_value, SystemExit) and unraisable.exc_value.code == 143:
        number = signal.SIGTERM
    if number is None or sys.is_finalizing():  # a finalizing interpreter starts no threads
        before(unraisable)
        return
    again = threading.Timer(0.1, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def check_words(words: Sequence[str]) -> None:
    """Refuse words of a command line that are not UTF-8."""
    for word in words:
        if any("\udc80" <= letter <= "\udcff" for letter in word):  # Python's form of bytes that are not UTF-8
            raise ValueError(f"{word!a} is not UTF-8; give text in that encoding.")


def _show_warning(message: Warning | str, category: type[Warning], *_place: Any) -> None:
    """Show a warning as a line without its place in the code; leave out warnings that are meant for developers."""
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        logging.getLogger("hfxling").warning(" ".join(str(message).split()))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether a user can do something about a library's message."""
    return not record.getMessage().startswith("mtime may not be reliable")


def _line_of(error: Exception) -> str | None:
    """The message of an error that a user can cause, with a remedy for the system's errors; None for other errors."""
    if isinstance(error, OSError) and error.errno in _REMEDIES and error.filename is not None:
        return f"{os.fsdecode(error.filename2 or error.filename)}: {_REMEDIES[error.errno]}"
    if os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error):  # safetensors' own errors
        return f"{_REMEDIES[errno.ENOSPC]} ({error})"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _TORCH_CANNOT_WRITE):
        return "a file could not be written: is the disk full? Make room, or name another place."
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return str(error)
    if isinstance(error, ValueError | FileNotFoundError):
        return str(error) or None
    return None


def without_secrets(text: str) -> str:
    """The text without passwords in addresses and without tokens of the Hub, which logs would keep."""
    text = re.sub(r"(:/+)[^/\s@]+@", r"\1...@", text)  # one slash if a path was made from an address
    text = re.sub(r"([?&][\w-]*(?:token|key|secret|password|signature)[\w-]*=)[^&\s'\"]+", r"\1...", text, flags=re.I)
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "hf_...", text)


def _record_without_secrets(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = logging.LogRecord(*args, **kwargs)
    try:
        text = record.getMessage()
    except (TypeError, ValueError):  # a library's malformed call, which must not end the run
        text = f"{record.msg} {record.args}"
    record.msg, record.args = without_secrets(text), ()
    return record


class _Message(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = without_secrets(super().format(record))
        # Terminals act on control characters.
        text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)
        return text if record.levelno <= logging.INFO else f"{record.levelname.lower()}: {text}"
