"""Build hook: the addresses of the project are those of the public repository that builds it."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def urls() -> dict[str, str]:
    """Returns the project's addresses from the variables that GitHub's workflows set; none anywhere else."""
    server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if not (server and repository):
        return {}
    home = f"{server}/{repository}"
    return {
        "Source": home,
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Documentation": f"{home}/blob/main/docs/index.md",
        "Issues": f"{home}/issues",
        "Security": f"{home}/security/policy",
    }


class Addresses(MetadataHookInterface):
    """Adds the addresses to the metadata of a wheel or sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets `urls`, which pyproject.toml declares as dynamic."""
        metadata["urls"] = urls()
