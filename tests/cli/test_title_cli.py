"""`distill --title`: the heading of the page, checked before anything is paid."""

from __future__ import annotations

from run_command import refused, succeeds

from dpdistill import verify


def test_the_page_is_headed_by_the_title(tmp_path):
    command = ("distill", "digits:train", "--method", "ldpdc", "--per-class", 1, "--out", tmp_path / "shared")
    assert "Expected a title without words about privacy" in refused(*command, "--title", "A private ward")
    assert not (tmp_path / "shared.run").exists()
    succeeds(*command, "--title", "Ward & round")
    assert '<h1 class="stated">Ward &amp; round</h1>' in (tmp_path / "shared" / "report.html").read_text()
    assert verify(tmp_path / "shared").passed
