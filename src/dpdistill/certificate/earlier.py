"""Upgrades certificates of the formats 5 and 6 to format 3. No other module knows those formats.

Format 5 describes single rows and runs without a guarantee, format 6 units. Their sentences (`unit`, `scope`, `slack`)
equal the present ones: a change of a sentence needs a mapping here, which the folders under
tests/certificate/folders_v0_1 test.
"""

from __future__ import annotations

from typing import Any

from dpdistill.certificate.check import same
from dpdistill.certificate.format import FORMAT, LISTS, WHOLE
from dpdistill.certificate.public_inputs import public_inputs
from dpdistill.errors import CertificateError

ROWS, UNITS = 5, 6
_FIELDS = {
    *("format", "claim", "relation", "unit", "groups", "attacker", "epsilons", "schedule", "events", "noise", "slack"),
    *("backend", "self_test", "releases", "recipe", "schema", "versions", "files", "date", "scope"),
}
_OF_UNITS = {"group_privacy"}
_BUDGET = {"epsilon", "delta", "adjacency"}
_EVENT = {"rounds", "mechanism", "noise_multiplier", "sampling_prob"}


def is_earlier(content: object) -> bool:
    """Returns whether a certificate has an earlier format that this version reads."""
    form = content.get("format") if isinstance(content, dict) else None
    return type(form) is int and form in (ROWS, UNITS)


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a certificate of format 5 or 6 as one of format 3 with the same statements.

    Raises:
        CertificateError: no run writes such a certificate in that format.
    """
    form = content["format"]
    fields = _FIELDS | (_OF_UNITS if form == UNITS else set())
    for key in sorted(fields - content.keys()):
        raise CertificateError(f"The certificate has no {key!r}.")
    for key in sorted(content.keys() - fields):
        raise CertificateError(f"The certificate has a field that this version does not know: {key!a:.80}.")
    facts, recipe = (_object(content, key) for key in ("schema", "recipe"))
    schedule, events = content["schedule"], content["events"]
    if schedule is not None:
        schedule, events = _upgrade_schedule(schedule, form), _upgrade_events(events, schedule)
    inferred = facts.get("inferred", [])
    return {
        **content,
        "format": FORMAT,
        "group_privacy": content.get("group_privacy"),
        "schedule": schedule,
        "events": events,
        "schema": {key: value for key, value in facts.items() if key != "inferred"},
        "inferred": inferred,
        "public_inputs": [each.model_dump() for each in public_inputs(recipe)],
        "ledger_head": None,
        **{key: [] for key in LISTS},
    }


def in_this_format(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a certificate for display: upgraded from an earlier format, or unchanged if that fails."""
    try:
        return upgrade(content) if is_earlier(content) else content
    except (CertificateError, RecursionError):
        return content


def _object(content: dict[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(content[key], dict):
        raise CertificateError(f"The certificate's {key!r} is of the wrong type.")
    return content[key]


def _upgrade_schedule(schedule: Any, form: int) -> Any:
    """Returns a schedule with a budget that states its unit: budgets of format 5 state none, those of format 6 one."""
    budget = schedule.get("budget") if isinstance(schedule, dict) else None
    if not isinstance(budget, dict):
        raise CertificateError("The certificate's 'schedule' is not a schedule.")
    if form == ROWS and budget.keys() == _BUDGET:
        return {**schedule, "budget": {**budget, "unit": None, "rows_per_unit": 1}}
    if form == UNITS and budget.keys() == _BUDGET | {"unit", "rows_per_unit"} and budget["unit"] is not None:
        return schedule
    raise CertificateError(f"A certificate of format {form} does not fit the unit of its schedule.")


def _upgrade_events(events: object, schedule: dict[str, Any]) -> dict[str, Any]:
    """Returns the tree of events; relation and unit of the events must equal the budget's."""
    budget = schedule["budget"]
    stated = {
        "relation": budget["adjacency"],
        **{key: budget[key] for key in ("unit", "rows_per_unit") if key in budget},
    }
    composition = events.get("composition") if isinstance(events, dict) else None
    if not isinstance(composition, list) or not same({**stated, "composition": composition}, events):
        raise CertificateError("The certificate's 'events' are not those of its schedule.")
    return {"kind": "composition", "part": WHOLE, "events": [_upgrade_event(event) for event in composition]}


def _upgrade_event(event: object) -> dict[str, Any]:
    if not isinstance(event, dict) or event.keys() != _EVENT:
        raise CertificateError("The certificate's 'events' are not those of its schedule.")
    full = event["mechanism"] == "gaussian"
    if full and not same(event["sampling_prob"], 1.0):
        raise CertificateError("The certificate's 'events' are not those of its schedule.")
    kept = ("rounds", "noise_multiplier") if full else ("rounds", "noise_multiplier", "sampling_prob")
    return {"kind": event["mechanism"], "part": WHOLE, **{key: event[key] for key in kept}}
