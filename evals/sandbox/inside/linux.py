"""The few system calls that the standard library does not offer."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

NEW_NS, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NET = 0x10000000, 0x20000000, 0x40000000
NEW_ALL = NEW_NS | NEW_UTS | NEW_IPC | NEW_USER | NEW_PID | NEW_NET

NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

SET_PDEATHSIG, SET_DUMPABLE, SET_SECCOMP, CAPBSET_DROP, SET_CHILD_SUBREAPER = 1, 4, 22, 24, 36
SET_NO_NEW_PRIVS, CAP_AMBIENT, AMBIENT_CLEAR_ALL = 38, 47, 4
MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CAPABILITIES = 64
"""More than there are; dropping one that the kernel does not know is an error that ends the loop."""

CLONE = {"x86_64": 56, "aarch64": 220}
SIGCHLD = 17

# Keeps the interpreter's lock, which a forked child must hold.
_python = ctypes.PyDLL(None, use_errno=True)
_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *args: object) -> None:
    """Call a function of the C library that answers 0; raises `OSError` with its name otherwise."""
    if getattr(_libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def prctl(option: int, first: int = 0, second: int = 0) -> None:
    """Change an attribute of this process; raises `OSError`."""
    call("prctl", option, *(ctypes.c_ulong(value) for value in (first, second, 0, 0)))


def fork_into(namespaces: int) -> int:
    """Fork with the child as first process of new namespaces; as `os.fork` otherwise, for a process of one thread.

    Raises:
        OSError: the kernel refuses.
    """
    _python.PyOS_BeforeFork()
    child = int(
        _python.syscall(ctypes.c_long(CLONE[os.uname().machine]), ctypes.c_ulong(namespaces | SIGCHLD), 0, 0, 0, 0)
    )
    if child == 0:
        _python.PyOS_AfterFork_Child()
        return 0
    code = ctypes.get_errno()
    _python.PyOS_AfterFork_Parent()
    if child < 0:
        raise OSError(code, f"clone: {os.strerror(code)}")
    return child


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount; raises `OSError`."""
    texts = [text.encode() or None for text in (source, target, kind)]
    try:
        call("mount", *texts, ctypes.c_ulong(flags), options.encode() or None)
    except OSError as error:
        raise OSError(error.errno, f"{kind or 'mount'} on {target}: {os.strerror(error.errno or 0)}") from error


def raise_loopback() -> None:
    """Bring up `lo`, the only interface of a new network namespace; raises `OSError`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def drop_capabilities() -> None:
    """Give up every capability for good, those that a new program would get too; raises `OSError`."""
    prctl(CAP_AMBIENT, AMBIENT_CLEAR_ALL)
    for capability in range(CAPABILITIES):
        try:
            prctl(CAPBSET_DROP, capability)
        except OSError:
            break
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    call("capset", header, bytes(24))


def install_filter(program: bytes) -> None:
    """Let the kernel judge every system call from here on by a BPF program; raises `OSError`."""
    code = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    prctl(SET_SECCOMP, MODE_FILTER, ctypes.addressof(described))
