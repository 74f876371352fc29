"""Puts this folder on the path, so that tests in every subfolder can import the shared checks of contract/.

`quick_programs` says how programs are compiled, `chosen_tests` which tests run.
"""

import contextlib

import chosen_tests
import pytest

MOST_MAPS = 25_000
"""Of memory that a process may have mapped, of the 65,530 that Linux allows: a compiled program takes six to ten."""


def pytest_addoption(parser):
    parser.addoption("--as-users", action="store_true", help="compile every program as users have it")
    parser.addoption("--variants", default="none", type=chosen_tests.share, help=chosen_tests.HELP)


def pytest_configure(config):
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):  # else workers run the tests
        import quick_programs

        quick_programs.NOW["quickly"] = not config.getoption("--as-users")


def pytest_collection_modifyitems(config, items):
    left_out = chosen_tests.left_out(items, config.getoption("--variants"), config.args)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in {*left_out}]


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"Variants: --variants {config.getoption('--variants')}")


@pytest.fixture
def as_users(monkeypatch):
    """All programs that a test is the first to run are compiled as users have them."""
    import quick_programs

    monkeypatch.setitem(quick_programs.NOW, "quickly", False)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """A worker that has compiled thousands of programs lets go of them: beyond what is allowed compiling crashes."""
    yield
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        if sum(1 for _ in maps) > MOST_MAPS:
            import jax

            jax.clear_caches()
