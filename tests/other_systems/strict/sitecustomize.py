# SPDX-License-Identifier: BSD-3-Clause
"""What Windows refuses, refused here: Python loads this at its start where its folder is on PYTHONPATH.

Modules and functions of POSIX are gone, folders cannot be opened, only what is open for writing can be
synced, open and mapped files stay where they are, a rename never replaces, names are those Windows takes, and
text without a stated encoding is an error. Each refusal of tiepoint's own doing is also written to the file
that STRICT_LOG names, so that a call whose error is caught is seen as well.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import sys
import traceback
import warnings

_stat, _read, _links = os.stat, os.read, os.readlink
_FORBIDDEN = set('<>:"|?*')
_RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{k}" for d in ("com", "lpt") for k in range(1, 10))}
_OURS = f"{os.sep}src{os.sep}tiepoint{os.sep}"
_list, _real_open = os.listdir, builtins.open

for _module in ("fcntl", "resource", "termios", "pwd", "grp", "syslog", "readline", "curses"):
    sys.modules[_module] = None  # type: ignore[assignment]


def _ours() -> str | None:
    """The innermost place of ours that led here; None where a library did it by itself."""
    stack = traceback.extract_stack()[:-2]
    near = [f for f in stack[-8:] if _OURS in f.filename]
    return f"{near[-1].filename.split(_OURS)[-1]}:{near[-1].lineno}" if near else None


def _refuse(number: int, why: str, path: object = None, *, tell: bool = True) -> OSError:
    place = _ours()
    if tell and place and (log := os.environ.get("STRICT_LOG")):
        with _real_open(log, "a", encoding="utf-8") as file:
            file.write(f"{place}: {why}: {path}\n")
    return OSError(number, why, path)


def _text(path: object) -> str | None:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else None


def _named(path: object) -> None:
    text = _text(path)
    if text is None:
        return
    if text.startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", text)
    for part in text.split("/"):
        if _FORBIDDEN & set(part) or part.split(".")[0].lower() in _RESERVED or part[-1:] == " ":
            if part.startswith("<"):
                return  # the name of code that is no file
            raise _refuse(errno.EINVAL, f"Windows takes no such name: {part}", text)
        if part.endswith(".") and part not in (".", ".."):
            raise _refuse(errno.EINVAL, f"Windows takes no name that ends in a dot: {part}", text)


def _in_use(path: object) -> bool:
    """Whether this process has the file, or a file below the folder, open or mapped."""
    text = os.path.realpath(_text(path) or "")
    below = text + "/"
    for number in _list("/proc/self/fd"):
        try:
            held = _links(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if (held == text or held.startswith(below)) and not os.path.isdir(held):
            return True
    with _real_open("/proc/self/maps", "rb") as maps:
        for line in maps:
            held = line[73:].rstrip(b"\n").decode("utf-8", "replace")
            if held == text or held.startswith(below):
                return True
    return False


_os_open, _fsync, _rename, _replace = os.open, os.fsync, os.rename, os.replace
_unlink, _rmdir, _mkdir, _kill = os.unlink, os.rmdir, os.mkdir, os.kill
_writable: set[int] = set()


def _checked_os_open(path, flags, mode=0o777, *, dir_fd=None):  # type: ignore[no-untyped-def]
    if dir_fd is None:
        _named(path)
        if os.path.isdir(path):
            raise _refuse(errno.EACCES, "Windows opens no folder", path, tell=False)
    made = _os_open(path, flags, mode) if dir_fd is None else _os_open(path, flags, mode, dir_fd=dir_fd)
    _writable.discard(made)
    if flags & (os.O_WRONLY | os.O_RDWR):
        _writable.add(made)
    return made


def _checked_fsync(fd):  # type: ignore[no-untyped-def]
    number = fd if isinstance(fd, int) else fd.fileno()
    if isinstance(fd, int) and number not in _writable:
        raise _refuse(errno.EBADF, "Windows syncs only what is open for writing")
    return _fsync(fd)


def _checked_rename(source, target, **more):  # type: ignore[no-untyped-def]
    _named(target)
    if os.path.lexists(target):
        raise _refuse(errno.EEXIST, "Windows renames onto nothing that exists", target, tell=False)
    if _in_use(source):
        raise _refuse(errno.EACCES, "Windows renames nothing that is open", source)
    return _rename(source, target, **more)


def _checked_replace(source, target, **more):  # type: ignore[no-untyped-def]
    _named(target)
    if os.path.isdir(target):
        raise _refuse(errno.EACCES, "Windows replaces no folder", target)
    for path in (source, target):
        if _in_use(path):
            raise _refuse(errno.EACCES, "Windows replaces nothing that is open", path)
    return _replace(source, target, **more)


def _checked_unlink(path, **more):  # type: ignore[no-untyped-def]
    if sys._getframe(1).f_code.co_filename.endswith("tempfile.py"):
        return _unlink(path, **more)  # a file without a name, which Python makes in another way on Windows
    if not more.get("dir_fd") and os.path.lexists(path) and _in_use(path):
        raise _refuse(errno.EACCES, "Windows removes nothing that is open", path)
    return _unlink(path, **more)


def _checked_mkdir(path, *args, **more):  # type: ignore[no-untyped-def]
    _named(path)
    return _mkdir(path, *args, **more)


def _checked_kill(pid, number):  # type: ignore[no-untyped-def]
    if number == 0:
        raise _refuse(errno.EINVAL, "Windows sends Ctrl-C for signal 0", pid)
    return _kill(pid, number)


def _checked_open(file, mode="r", *args, **more):  # type: ignore[no-untyped-def]
    _named(file)
    if "b" not in mode and more.get("encoding") is None and len(args) < 2:
        if _OURS in sys._getframe(1).f_code.co_filename:
            raise _refuse(errno.EINVAL, "the encoding is not stated", file)
        more["encoding"] = "utf-8"
    return _real_open(file, mode, *args, **more)


def _checked_stat(path, **more):  # type: ignore[no-untyped-def]
    if isinstance(path, str) and path.startswith("/proc/"):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    return _stat(path, **more)


os.open, os.fsync, os.rename, os.replace = _checked_os_open, _checked_fsync, _checked_rename, _checked_replace
os.unlink = os.remove = _checked_unlink
os.mkdir, os.kill, os.stat, builtins.open = _checked_mkdir, _checked_kill, _checked_stat, _checked_open

for _name in (
    "fork", "forkpty", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "getuid", "geteuid",
    "getgid", "getegid", "getpgid", "getpgrp", "setsid", "killpg", "statvfs", "fstatvfs", "mkfifo", "mknod",
    "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev", "chown", "fchown", "lchown",
    "nice", "sync", "wait3", "wait4", "getloadavg", "O_DIRECTORY", "O_NOFOLLOW",
    "O_NONBLOCK", "O_CLOEXEC",
):  # fmt: skip
    if hasattr(os, _name):
        delattr(os, _name)
for _name in (
    "SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGPIPE", "SIGCHLD", "SIGTSTP",
    "alarm", "setitimer", "pause", "pthread_sigmask", "pthread_kill", "sigwait", "siginterrupt",
):  # fmt: skip
    if hasattr(signal, _name):
        delattr(signal, _name)
warnings.filterwarnings("error", category=EncodingWarning, module=r"tiepoint\b")
