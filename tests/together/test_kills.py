"""Processes of owners and coordinator that are killed and started again: nothing is paid twice, lost or doubled."""

import kill_parties
import pytest


def test_processes_that_are_killed_resume(tmp_path):
    killed = kill_parties.killed_run(tmp_path, kills=2, rounds=6, seed=1)
    assert len(kill_parties.check(tmp_path, 6)) == 6
    assert len(killed) <= 2


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    killed = kill_parties.killed_run(tmp_path, kills=20, rounds=100, seed=7)
    assert len(killed) == 20
    assert {kill_parties.COORDINATOR, *kill_parties.NAMES} == {*killed}
    lists = kill_parties.check(tmp_path, 100)
    assert len(lists) == 100
    assert all(len(names) >= 3 for names in lists)
