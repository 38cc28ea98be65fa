"""Programs that want to speak with somebody."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evals.sandbox.hostile.base import Hostile, refused

NETWORK: Mapping[str, Hostile] = {
    "calls the host": Hostile(
        """
for host in ('127.0.0.1', 'localhost', '::1', '0.0.0.0'):
    attempt(host, socket.create_connection, (host, @PORT@), 0.3)
print('tried')
""",
        refused,
    ),
    "calls out": Hostile(
        """
for host in ('192.0.2.1', '198.51.100.1', '2001:db8::1', '169.254.169.254', '10.0.0.1'):
    attempt(host, socket.create_connection, (host, 80), 0.3)
print('tried')
""",
        refused,
    ),
    "sends datagrams": Hostile(
        """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt('out', s.sendto, b'x', ('192.0.2.1', 53))
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
attempt('all', s.sendto, b'x', ('255.255.255.255', 9))
print('tried')
""",
        refused,
    ),
    "resolves names": Hostile(
        """
attempt('name', socket.getaddrinfo, 'example.com', 80)
print('tried')
""",
        refused,
    ),
    "raw sockets": Hostile(
        """
for args in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 0), (17, 2, 0)):
    attempt(str(args), socket.socket, *args)
print('tried')
""",
        refused,
    ),
    "other families": Hostile(
        """
for family in range(3, 47):
    for kind in (1, 2, 3, 5):
        if family != 10:
            attempt(f'{family} {kind}', socket.socket, family, kind)
print('tried')
""",
        refused,
    ),
    "abstract sockets of the host": Hostile(
        r"""
s = socket.socket(socket.AF_UNIX)
attempt('abstract', s.connect, '\0@CANARY@')
for p in ('/var/run/docker.sock', '/run/docker.sock', '/run/dbus/system_bus_socket', '/run/systemd/private'):
    attempt(p, socket.socket(socket.AF_UNIX).connect, p)
print('tried')
""",
        refused,
    ),
    "a neighbour's loopback": Hostile(
        """
s = socket.create_server(('127.0.0.1', 54321))
c = socket.create_connection(('127.0.0.1', 54321))
s.accept()[0].send(b'own')
print('tried', c.recv(3))
""",
        refused,
    ),
}
