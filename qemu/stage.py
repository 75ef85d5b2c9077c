# SPDX-License-Identifier: GPL-2.0
"""Output of concurrent programs, each in one piece.

The output of the first program is shown at once. That of the others is kept until
it has ended; then the next one is shown, with its output so far.
"""

import sys
import threading


class Piece:
    """The output of one program."""

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
        """Ends the output."""
        with self.stage.lock:
            self.closed = True
            self.stage.show()


class Stage:
    """The terminal, shared by all pieces."""

    def __init__(self, out=None):
        self.out = out or sys.stdout
        self.lock = threading.RLock()
        self.pieces = []

    def piece(self):
        """A new piece, after those that are open."""
        with self.lock:
            self.pieces.append(Piece(self))
            return self.pieces[-1]

    def show(self):
        """Shows all output whose turn has come."""
        while self.pieces:
            first = self.pieces[0]
            for line in first.kept:
                print(line, file=self.out, flush=True)
            first.kept.clear()
            if not first.closed:
                return
            self.pieces.pop(0)

    def end(self):
        """Shows all output, because of an interruption."""
        with self.lock:
            for piece in self.pieces:
                piece.closed = True
            self.show()
