"""The driver's talk with a judge: one job goes there, messages come back as they are known."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import msgspec

from grader.errors import GraderFailed
from grader.job import Job, Message

if TYPE_CHECKING:
    import socket

    from grader.forked import ZygoteProcess

message_decoder = msgspec.json.Decoder(Message)

SLACK_SECONDS = 120.0
"""What a judge may take beyond its checks' own limits."""


class Conversation:
    """A judge forked from the zygote and given a job. `channel` is readable when its next message is there."""

    def __init__(self, zygote: ZygoteProcess, job: Job) -> None:
        """Raises ZygoteFailed; the job is sent with `open`."""
        from grader.links import PATIENCE
        from grader.zygote import JUDGE_MODULES, OPTIMIZER

        self._zygote = zygote
        self._job = job
        if job.optimizers:
            zygote.prepare(OPTIMIZER)
        if zygote.judges:
            zygote.prepare(JUDGE_MODULES)
        self.channel, self._number, self.pid = zygote.judge()
        self.deadline = (
            time.monotonic()
            + SLACK_SECONDS
            + sum(one.seconds or job.seconds_per_check for one in job.declared) * (PATIENCE + 2)
        )

    def open(self) -> None:
        """Sends the job; raises OSError when the judge is gone."""
        from grader.wire import encode_header, pack

        self.channel.sendall(pack(encode_header(self._job)))

    def message(self) -> Message:
        """The next message; raises EOFError when the judge has ended."""
        from grader.wire import receive

        header, _ = receive(self.channel)
        return message_decoder.decode(header)

    def close(self) -> None:
        """Ends the judge and its workers; raises ZygoteFailed when the zygote is gone."""
        self.channel.close()
        self._zygote.end(self._number)


class MessageStream:
    """The messages of a judge forked from the zygote, as they come."""

    def __init__(self, zygote: ZygoteProcess, job: Job) -> None:
        self._zygote = zygote
        self._job = job

    def __iter__(self):  # type: ignore[no-untyped-def]
        from grader.forked import ZygoteFailed

        try:
            conversation = Conversation(self._zygote, self._job)
        except ZygoteFailed as error:
            raise GraderFailed(str(error)) from None
        try:
            conversation.open()
            while True:
                wait_for(conversation.channel, conversation.deadline)
                yield conversation.message()
        except EOFError:
            return
        finally:
            try:
                conversation.close()
            except ZygoteFailed as error:
                raise GraderFailed(str(error)) from None


def wait_for(channel: socket.socket, deadline: float) -> None:
    """Waits for the judge's next message; raises GraderFailed when it takes too long."""
    ready, _, _ = select.select([channel], [], [], max(0.0, deadline - time.monotonic()))
    if not ready:
        raise GraderFailed("the judge did not end in time")
