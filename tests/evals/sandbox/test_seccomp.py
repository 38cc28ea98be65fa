"""The filter of system calls refuses what it must, lets ordinary calls through, and knows their numbers."""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import struct

import pytest

from evals.sandbox import seccomp

ALLOWED, KILLED = "allowed", "killed"


def judged(code: bytes, audit: int, number: int, arguments: tuple[int, ...] = ()) -> str | int:
    """What a filter says of a call: allowed, killed, or the error that it is answered with."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(*arguments, *[0] * (6 - len(arguments))))
    instructions: list[tuple[int, int, int, int]] = list(struct.iter_unpack("=HBBI", code))
    place = accumulator = 0
    while True:
        kind, then, otherwise, value = instructions[place]
        place += 1
        if kind == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == seccomp.MASK:
            accumulator &= value
        elif kind == seccomp.EQUAL:
            place += then if accumulator == value else otherwise
        elif kind == seccomp.GREATER:
            place += then if accumulator > value else otherwise
        else:
            verdicts: dict[int, str | int] = {seccomp.ALLOW: ALLOWED, seccomp.KILL: KILLED}
            return verdicts.get(value, value & 0xFFFF)


def x86(number: int, *arguments: int) -> str | int:
    """What the filter of x86_64 says of a call."""
    return judged(seccomp.program("x86_64"), 0xC000003E, number, arguments)


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_forbidden_and_absent(machine: str) -> None:
    """Every call of the tables is refused with its error."""
    column = list(seccomp.MACHINES).index(machine)
    code, audit = seccomp.program(machine), seccomp.MACHINES[machine]
    for calls, error in ((seccomp.FORBIDDEN, errno.EPERM), (seccomp.ABSENT, errno.ENOSYS)):
        for number in seccomp.numbers(calls.values(), column):
            assert judged(code, audit, number) == error


def test_ordinary_calls() -> None:
    """Reading, writing, opening, waiting, executing, threads, timers and loopback sockets go through."""
    for number in (0, 1, 2, 3, 5, 7, 10, 11, 12, 13, 22, 32, 35, 42, 43, 49, 50, 57, 58, 59, 60, 61, 62, 202, 257, 293):
        assert x86(number) == ALLOWED
    assert x86(56, 0x3D0F00) == ALLOWED  # clone, as for a thread
    assert x86(56, 0x1200011) == ALLOWED  # clone, as for a fork
    assert x86(9, 0, 4096, 3, 0x22) == ALLOWED  # mmap, private and anonymous
    assert x86(9, 0, 4096, 3, 0x01) == ALLOWED  # mmap, shared, of a file
    assert x86(16, 1, 0x5401) == ALLOWED  # ioctl, TCGETS
    for family in (1, 2, 10):
        assert x86(41, family, 1 | 0o2000000) == ALLOWED
    assert x86(41, 2, 2, 17) == ALLOWED
    assert x86(135, 0xFFFFFFFF) == ALLOWED
    assert x86(302, 0, 3) == x86(160, 3) == ALLOWED
    assert x86(53, 1, 1) == ALLOWED


@pytest.mark.parametrize("bit", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_new_namespaces(bit: int) -> None:
    """No clone makes a namespace, whatever else it asks for and whatever the unused upper half holds."""
    assert x86(56, bit) == errno.EPERM
    assert x86(56, 0x3D0F00 | bit | 17) == errno.EPERM
    assert x86(56, bit | 1 << 40) == errno.EPERM


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ((41, 16, 3), errno.EAFNOSUPPORT),  # netlink
        ((41, 17, 3), errno.EAFNOSUPPORT),  # packet
        ((41, 40, 1), errno.EAFNOSUPPORT),  # vsock, which no network namespace parts
        ((41, 38, 5), errno.EAFNOSUPPORT),  # alg
        ((41, 2, 3), errno.EPERM),  # raw
        ((41, 2, 3 | 0o2000000), errno.EPERM),
        ((41, 2, 1, 132), errno.EPROTONOSUPPORT),  # SCTP
        ((16, 0, 0x5412), errno.EPERM),  # TIOCSTI
        ((16, 0, 0x5412 | 1 << 32), errno.EPERM),  # the kernel looks at the lower half only
        ((16, 0, 0x541C), errno.EPERM),  # TIOCLINUX
        ((9, 0, 4096, 3, 0x21), errno.EPERM),  # shared and anonymous
        ((9, 0, 4096, 3, 0x23), errno.EPERM),
        ((9, 0, 4096, 3, 0x40022), errno.ENOMEM),  # huge pages
        ((302, 1), errno.EPERM),  # limits of another process
        ((302, 0, 4), errno.EPERM),  # core dumps
        ((160, 4), errno.EPERM),
        ((53, 30, 1), errno.EAFNOSUPPORT),  # a pair of sockets of another family
        ((135, 0x40000), errno.EPERM),  # no randomized addresses
    ],
)
def test_refused_by_argument(call: tuple[int, ...], error: int) -> None:
    """Calls that are let through in part are refused for these arguments."""
    assert x86(*call) == error


def test_other_doors() -> None:
    """The 32-bit calls end the program; those of another numbering, and those from the future, are not there."""
    code = seccomp.program("x86_64")
    assert judged(code, 0x40000003, 20) == KILLED
    assert judged(code, seccomp.MACHINES["aarch64"], 0) == KILLED
    assert x86(0x40000000) == errno.ENOSYS
    assert x86(seccomp.NEWEST) == ALLOWED
    assert x86(seccomp.NEWEST + 1) == errno.ENOSYS


def test_an_unknown_processor() -> None:
    """There is no filter for a processor whose numbers are not known."""
    with pytest.raises(KeyError):
        seccomp.program("riscv64")


def test_numbers() -> None:
    """The numbers are those that libseccomp knows; it has none for a call that a processor lacks."""
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("no libseccomp here")
    resolve = ctypes.CDLL(name).seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    judged_by_argument = {
        "clone": seccomp.CLONE,
        "socket": seccomp.SOCKET,
        "socketpair": seccomp.SOCKETPAIR,
        "setrlimit": seccomp.SETRLIMIT,
        "ioctl": seccomp.IOCTL,
        "mmap": seccomp.MMAP,
        "prlimit64": seccomp.PRLIMIT64,
        "personality": seccomp.PERSONALITY,
    }
    for call, pair in {**seccomp.FORBIDDEN, **seccomp.ABSENT, **judged_by_argument}.items():
        for audit, number in zip(seccomp.MACHINES.values(), pair, strict=True):
            found = resolve(audit, call.encode())
            assert found == -1 or (found if found >= 0 else None) == number, call  # -1: younger than the library


def test_sizes_of_socket_buffers_stay_as_they_are() -> None:
    """A program that asks for larger buffers is told that it has them; other options of sockets are its own."""
    for option in (7, 8, 32, 33):
        assert x86(54, 3, 1, option) == 0
    assert x86(54, 3, 1, 2) == ALLOWED
    assert x86(54, 3, 6, 7) == ALLOWED
