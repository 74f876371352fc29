"""An owner's connection: connects outwards, answers at whole multiples of the plan's pace, and connects again."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from dpdistill.errors import Unanswered
from dpdistill.method import Progress, no_progress
from dpdistill.schema import DataError
from dpdistill.together.messages import Malformed, Message, field
from dpdistill.together.owner import Owner
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.tls import SHAKE_SECONDS, Connection, Lost, client_context, connect

LOG = logging.getLogger("dpdistill")
_FIRST_PAUSE, _MOST_PAUSE = 0.25, 10.0


def take_part(
    plan: TogetherPlan,
    owner: Owner,
    address: str | None = None,
    wait: float = 86400.0,
    progress: Progress = no_progress,
) -> None:
    """Answers the coordinator until the run has ended.

    Args:
        plan: the checked plan.
        owner: this owner.
        address: host:port of the coordinator; the plan's by default.
        wait: seconds without a coordinator after which the owner gives up.
        progress: called with the number of answered rounds.

    Raises:
        DataError: the coordinator is not the plan's, or does not let this owner in.
        Unanswered: no coordinator for some time; the run can be resumed.
    """
    context, place = client_context(plan.certificate), address or plan.address
    until, pause = time.monotonic() + wait, _FIRST_PAUSE
    while True:
        link = None
        try:
            link = connect(place, context)
            challenge = field(link.receive(SHAKE_SECONDS), "challenge", bytes)
            link.send(owner.hello(challenge), SHAKE_SECONDS)
            if _served(plan, owner, link, progress):
                return
        except Malformed as error:
            LOG.warning("the coordinator sent %s", error)
        except Lost:
            pass
        finally:
            if link is not None:
                link.close()
        if link is not None:
            until, pause = time.monotonic() + wait, _FIRST_PAUSE
        if time.monotonic() >= until:
            raise Unanswered(
                f"No coordinator answered at {place} for {wait:g} seconds: nothing is lost; run the same command again."
            )
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(2 * pause, _MOST_PAUSE)


def _served(plan: TogetherPlan, owner: Owner, link: Connection, progress: Progress) -> bool:
    """Answers messages of a connection; returns True at the end of the run.

    Raises:
        DataError: the coordinator does not let this owner in.
        Lost: the connection ended.
    """
    while True:
        message = link.receive(None)
        kind, arrived = message.get("kind"), time.monotonic()
        if kind == "end":
            progress("releasing", plan.schedule.rounds, plan.schedule.rounds)
            return True
        if kind == "refused":
            raise DataError(f"The coordinator does not let this owner in: {_plain(message)}.")
        if kind == "stopped":
            raise DataError(f"The coordinator stopped the run: {_plain(message)}")
        answer = owner.answer(message)
        if kind == "contribute" and isinstance(t := message.get("round"), int):
            progress("releasing", t, plan.schedule.rounds)
        _sleep_until(arrived, plan.pace)
        link.send(answer)
        if owner.failure is not None:
            raise owner.failure


def _plain(message: Message) -> str:
    return "".join(c for c in str(message.get("sentence"))[:400] if c.isprintable())


def _sleep_until(arrived: float, pace: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Waits for the next whole multiple of the pace: the time of an answer tells little about records and coins."""
    if pace > 0.0:
        passed = time.monotonic() - arrived
        sleep(max(0.0, math.ceil(passed / pace) * pace - passed))
