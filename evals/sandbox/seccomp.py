"""The system calls that a program may not make, as a filter for the kernel."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping

MACHINES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""`platform.machine()` -> the kernel's AUDIT_ARCH, for those whose numbers stand below."""

NEWEST = 462
"""`mseal`, Linux 6.10: what came later is unknown here, and answered as a kernel does that has never heard of it."""

# Numbers on x86_64 and aarch64; None where there is no such call.
FORBIDDEN: Mapping[str, tuple[int | None, int | None]] = {
    # Other file systems and roots.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "mount_setattr": (442, 442),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    "ustat": (136, None),
    "sysfs": (139, None),
    # Other namespaces.
    "unshare": (272, 97),
    "setns": (308, 268),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # Keys of the kernel, which no namespace parts.
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Wide doors into the kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "_sysctl": (156, None),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    # The machine.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}

# Answered as by a kernel without them, so that programs take the older way. The second half holds memory that belongs
# to no process and that nobody could count.
ABSENT: Mapping[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmdt": (67, 197),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}

CLONE = (56, 220)
SOCKET = (41, 198)
SOCKETPAIR = (53, 199)
IOCTL = (16, 29)
MMAP = (9, 222)
PRLIMIT64 = (302, 261)
SETRLIMIT = (160, 164)
PERSONALITY = (135, 92)
SETSOCKOPT = (54, 208)

NEW_NAMESPACES = 0x7E020000
UNIX, INET, INET6 = 1, 2, 10
STREAM, DATAGRAM, SEQPACKET, TYPE_MASK = 1, 2, 5, 0xF
TCP, UDP = 6, 17
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SHARED_ANONYMOUS, HUGE_PAGES = 0x21, 0x40000
QUERY_PERSONALITY = 0xFFFFFFFF
LIMIT_CORE = 4
SOL_SOCKET, BUFFER_SIZES = 1, (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and their privileged forms: what lies in a socket is nobody's memory that could be watched."""

# seccomp_data: the number at 0, the architecture at 4, the lower half of argument n at 16 + 8 n.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
LOAD, EQUAL, GREATER, MASK, RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def program(machine: str) -> bytes:
    """The filter for one kind of processor, 8 bytes an instruction.

    Every rule loads what it looks at and ends in a verdict or falls through to the next; the last allows.

    Raises:
        KeyError: for a processor that is not in `MACHINES`.
    """
    audit = MACHINES[machine]
    column = list(MACHINES).index(machine)
    code = [op(LOAD, ARCHITECTURE), op(EQUAL, audit, 1, 0), op(RETURN, KILL), op(LOAD, NUMBER)]
    code += [op(GREATER, NEWEST, 0, 1), refuse(errno.ENOSYS)]
    for calls, error in ((FORBIDDEN, errno.EPERM), (ABSENT, errno.ENOSYS)):
        for number in numbers(calls.values(), column):
            code += [op(EQUAL, number, 0, 1), refuse(error)]
    for number, rule in rules(column):
        code += [op(EQUAL, number, 0, len(rule)), *rule]
    return b"".join([*code, op(RETURN, ALLOW)])


def numbers(calls: Iterable[tuple[int | None, int | None]], column: int) -> list[int]:
    """The numbers of one column that there are."""
    return [pair[column] for pair in calls if pair[column] is not None]  # type: ignore[misc]


def rules(column: int) -> list[tuple[int, list[bytes]]]:
    """Calls that are judged by their arguments: number, and instructions that end in a verdict."""
    return [
        (CLONE[column], [argument(0), *masked(NEW_NAMESPACES), op(EQUAL, 0, 1, 0), refuse(errno.EPERM), allow()]),
        (
            SOCKET[column],
            [
                *among(0, (UNIX, INET, INET6), errno.EAFNOSUPPORT),
                *among(1, (STREAM, DATAGRAM, SEQPACKET), errno.EPERM, TYPE_MASK),
                *among(2, (0, TCP, UDP), errno.EPROTONOSUPPORT),
                allow(),
            ],
        ),
        (IOCTL[column], [*none_of(1, (TIOCSTI, TIOCLINUX)), allow()]),
        (
            MMAP[column],
            [
                *(argument(3), *masked(SHARED_ANONYMOUS), op(EQUAL, SHARED_ANONYMOUS, 0, 1), refuse(errno.EPERM)),
                *(argument(3), *masked(HUGE_PAGES), op(EQUAL, 0, 1, 0), refuse(errno.ENOMEM)),
                allow(),
            ],
        ),
        (SOCKETPAIR[column], [*among(0, (UNIX,), errno.EAFNOSUPPORT), allow()]),
        # Of the program's own process only, and not of core dumps: a bound of 1 keeps them from everybody, 0 does not.
        (PRLIMIT64[column], [*among(0, (0,), errno.EPERM), *none_of(1, (LIMIT_CORE,)), allow()]),
        (SETRLIMIT[column], [*none_of(0, (LIMIT_CORE,)), allow()]),
        # Answered as done: those who ask for more room work with less as well.
        (
            SETSOCKOPT[column],
            [argument(1), op(EQUAL, SOL_SOCKET, 1, 0), allow(), *none_of(2, BUFFER_SIZES, 0), allow()],
        ),
        (PERSONALITY[column], [*among(0, (0, QUERY_PERSONALITY), errno.EPERM), allow()]),
    ]


def among(index: int, values: tuple[int, ...], error: int, mask: int = 0) -> list[bytes]:
    """Refuse unless an argument, masked, is one of the values; otherwise go on."""
    tests = [op(EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [argument(index), *(masked(mask) if mask else []), *tests, refuse(error)]


def none_of(index: int, values: tuple[int, ...], error: int = errno.EPERM) -> list[bytes]:
    """Refuse where an argument is one of the values; otherwise go on."""
    return [argument(index), *(word for value in values for word in (op(EQUAL, value, 0, 1), refuse(error)))]


def argument(index: int) -> bytes:
    """Load the lower half of an argument: what these calls look at themselves."""
    return op(LOAD, ARGUMENTS + 8 * index)


def masked(mask: int) -> list[bytes]:
    """Keep the bits of a mask."""
    return [op(MASK, mask)]


def refuse(error: int) -> bytes:
    """Answer with an error."""
    return op(RETURN, ERRNO | error)


def allow() -> bytes:
    """Let the call through."""
    return op(RETURN, ALLOW)


def op(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction: what it does, its operand, and how many instructions to skip after a test."""
    return struct.pack("=HBBI", code, then, otherwise, value)
