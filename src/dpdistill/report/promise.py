"""The guarantee as sections of the page: in plain words and in numbers; every text from a file is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from dpdistill.report import words
from dpdistill.report.guarantee import Group, Guarantee
from dpdistill.report.markup import key_table, section, table
from dpdistill.report.pictures import curve_svg

GROUP_HEADS = ("Rounds", "Noise multiplier σ", "Sampling probability q")

NOT_COVERED = (
    "<b>Other releases from the same records.</b> Another synthetic set, model or statistic has its own ε;"
    " together they protect less: the ε add up.",
    "<b>Choosing the recipe.</b> Whoever tuned the settings by looking at results on these records has used them;"
    " that is not counted here. Below stands where the recipe comes from.",
    "<b>Scores.</b> Accuracies computed on other private records say something about those records.",
    "<b>What is true of everybody.</b> If the set teaches a general fact, it would have taught it without you as well.",
    "<b>The owner’s machine.</b> The records themselves, and the ledger of the run, must be kept as before.",
)


def in_words(g: Guarantee, certificate: Mapping[str, Any]) -> str:
    """The guarantee, and its limits, for somebody who has to sign."""
    if not g.private:
        return section(
            "What is guaranteed: nothing",
            "<p><b>No privacy guarantee.</b> ε = ∞, in words: epsilon is infinite. Nothing limits what this set may"
            " reveal about the records it was made from, and single records may be recognisable in it."
            " Handle it as you handle those records.</p>",
        )
    record = words.neighbours(g.relation)
    percent = words.percent(words.guess_bound(g.epsilon, g.delta))
    epsilon, delta, scope = words.upper(g.epsilon), words.plain(g.delta), certificate.get("scope")
    seeded = (
        '<p class="note"><b>The noise came from a seed.</b> What follows would hold for secret noise;'
        " for this set nothing is guaranteed.</p>"
    )
    slack = f" (<b>{words.one_in(g.delta)}</b>)" if g.delta > 0 else ""
    promise = [
        "<p>This set was computed from private records with <b>differential privacy</b>: noise was added so that the"
        f" set looks almost the same {record.regardless}.</p>",
        "<ul>",
        f"<li><b>ε = {epsilon}</b> says what “almost” means. Whatever anybody concludes from this folder, the"
        f" probability of it would have been at most e<sup>ε</sup>&nbsp;=&nbsp;{words.factor(g.epsilon)} times larger"
        f" or smaller {record.had}.</li>",
        f"<li><b>δ = {delta}</b>{slack} is the slack: by this much, and no more, a probability may differ"
        " beyond that factor.</li>",
        f"<li><b>An example.</b> Somebody knows all other records, the program and its settings, and has no idea"
        f" {record.question}: fifty-fifty. Having seen this folder they guess right with a probability of at most"
        f" <b>{percent}</b>.</li>",
        "</ul>",
        "<p>This holds for every record, also the most unusual one, against every attacker, whatever else they know and"
        " however much they compute, now and later.</p>",
        _weak(g),
    ]
    limits = [
        "<h3>Not covered</h3>",
        "<ul>" + "".join(f"<li>{item}</li>" for item in _not_covered(g)) + "</ul>",
        f'<p class="soft small">In the words of the certificate: “{escape(words.plain(scope))}”</p>' if scope else "",
    ]
    columns = "".join(f"<div>{''.join(part)}</div>" for part in (promise, limits))
    title = "What is guaranteed, in plain words"
    return section(title, seeded if g.seeded else "", f'<div class="two">{columns}</div>')


def _weak(g: Guarantee) -> str:
    if g.epsilon <= 4:
        return ""
    return (
        f'<p class="note"><b>ε = {words.upper(g.epsilon)} is large.</b> The bound of the example is close to certainty,'
        " so by itself the number promises little against an attacker who knows everything else.</p>"
    )


def _not_covered(g: Guarantee) -> list[str]:
    several = [(k, epsilon) for k, epsilon in g.rows if k > 1]
    person = "<b>A person with several rows.</b> The unit is one row; somebody with more rows is protected less"
    if several:
        person += ": " + ", ".join(
            f"ε&nbsp;=&nbsp;{words.upper(epsilon)} with {k:g} rows" for k, epsilon in several[:3]
        )
    return [person + ".", *NOT_COVERED]


def in_numbers(g: Guarantee, certificate: Mapping[str, Any]) -> str:
    """The numbers of the certificate, and the curve."""
    rows = [("ε", "∞ (infinite)")]
    if g.private:
        rows = [("ε", words.upper(g.epsilon)), ("δ", words.plain(g.delta))]
        rows.append(("Neighbouring data sets", escape(g.relation) or "not stated"))
        rows.append(("Unit", escape(g.unit) or "one row"))
    rows.append(("Noise", escape(g.noise) or "not stated"))
    if len(g.groups) == 1:
        rows += list(zip(GROUP_HEADS, _group_cells(g.groups[0]), strict=True))
    if certificate.get("slack"):
        rows.append(("Rounding", escape(words.plain(certificate["slack"]))))
    left = [key_table(rows)]
    if len(g.groups) > 1:
        left += ["<h3>Rounds</h3>", table(GROUP_HEADS, map(_group_cells, g.groups))]
    right = []
    finite = [(delta, epsilon) for delta, epsilon in g.table if 0 < delta < 1 and 0 <= epsilon < float("inf")]
    if finite:
        labels = [words.upper(epsilon) for _, epsilon in finite]
        right.append(curve_svg(finite, (g.delta, g.epsilon) if g.delta > 0 else None, labels))
        right.append('<p class="soft small">One run, one curve: a smaller δ reads off a larger ε.</p>')
    if g.rows:
        right.append("<h3>One person, several rows</h3>")
        cells = ((f"{k:g}", words.upper(epsilon)) for k, epsilon in sorted(g.rows))
        right.append(table(("Rows of one person", f"ε at δ = {words.plain(g.delta)}"), cells))
    body = "".join(left)
    return section(
        "In numbers", f'<div class="two"><div>{body}</div><div>{"".join(right)}</div></div>' if right else body
    )


def _group_cells(group: Group) -> tuple[str, str, str]:
    q = group.sampling_prob
    return (
        escape(words.plain(group.rounds)),
        escape(words.plain(group.noise_multiplier)),
        "1 (all records)" if q == 1 else escape(words.plain(q)),
    )
