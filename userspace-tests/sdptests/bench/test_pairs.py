# SPDX-License-Identifier: MIT
"""Connected sockets."""

from __future__ import annotations

import contextlib
import socket
import unittest
from unittest import mock

from sdptests.bench import pairs
from sdptests.twohosts.hosts import Host


class Pairs(unittest.TestCase):
    """Kinds of streams beside each other, which are all TCP's here."""

    def test_each_kind_sends_what_is_written_at_once(self) -> None:
        """Otherwise one of them would gather short messages, and another one not."""
        here = Host("b", "127.0.0.1", "::1", ())
        with (
            mock.patch.object(pairs, "B", here),
            mock.patch.object(pairs, "namespace", lambda _name: contextlib.nullcontext()),
            mock.patch.object(pairs.native, "make", lambda _family, _host: socket.socket()),
        ):
            for kind in (pairs.tcp, lambda: pairs.sdp(None)):
                with kind() as pair:
                    for end in pair:
                        delays = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                        self.assertEqual(delays, 1)


if __name__ == "__main__":
    unittest.main()
