# SPDX-License-Identifier: GPL-2.0
"""Output of what runs side by side, each in one piece.

What began first is shown as it comes. The others are kept until it has ended:
then the next one's turn has come, with all it has said so far.
"""

import sys
import threading


class Piece:
    """What one program has to show."""

    def __init__(self, stage):
        self.stage = stage
        self.kept = []
        self.closed = False

    def say(self, *lines):
        """Shows lines, now or later."""
        with self.stage.lock:
            self.kept += lines
            self.stage.show()

    def close(self):
        """There is nothing more to come."""
        with self.stage.lock:
            self.closed = True
            self.stage.show()


class Stage:
    """Where it is shown."""

    def __init__(self, out=None):
        self.out = out or sys.stdout
        self.lock = threading.RLock()
        self.pieces = []

    def piece(self):
        """A new one, behind those that are open."""
        with self.lock:
            self.pieces.append(Piece(self))
            return self.pieces[-1]

    def show(self):
        """Whatever may be shown now."""
        while self.pieces:
            first = self.pieces[0]
            for line in first.kept:
                print(line, file=self.out, flush=True)
            first.kept.clear()
            if not first.closed:
                return
            self.pieces.pop(0)

    def end(self):
        """All of it, because of an interruption."""
        with self.lock:
            for piece in self.pieces:
                piece.closed = True
            self.show()
