"""Workers at the command line: a set made with them, what is left behind, and refusals."""

import pytest
from run_command import dpdistill
from small_sets import SMALL_DOS


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray", "local"], "Expected --workers N with --ray and --share"),
        (["--share", "s3://bucket"], "Expected --workers N with --ray and --share"),
        (["--workers", "2", "--non-private"], "leave out --workers with --from and --non-private"),
        (["--workers", "0"], "Input should be greater than or equal to 1"),
        (["--workers", "1", "--share", "nosuch://bucket"], "needs fsspec and its own package: pip install"),
    ],
)
def test_refusals(options, said, tmp_path):
    code, out, error = dpdistill(
        "distill", "digits:train", "--out", tmp_path / "out", *SMALL_DOS, *options, "--method", "dos"
    )
    assert code == 2
    assert said in " ".join(error.split()).replace("│ ", "").replace(" │", "")
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_a_run_with_workers_verifies_and_leaves_no_records(tmp_path):
    asked = ["distill", "digits:train", "--out", tmp_path / "out", "--method", "dos", *SMALL_DOS, "--workers", 2]
    code, out, _ = dpdistill(*asked)
    assert code == 0
    assert "epsilon = 1 at delta = 1e-05" in out
    assert not (tmp_path / "out.run" / "workers").exists()
    assert dpdistill("verify", tmp_path / "out")[0] == 0
