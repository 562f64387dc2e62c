"""Members of portable files, read and written by Python's own zip library."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

Members = dict[str, bytes]


def members(file: Path) -> Members:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def listed(content: Members) -> Members:
    """The same members with right sizes and digests in the manifest."""
    manifest = json.loads(content["manifest.json"])
    members = {name: content[name] for name in sorted(content) if name != "manifest.json"}
    manifest["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    return {"manifest.json": json.dumps(manifest).encode(), **members}


def write(file: Path, content: Members, **changed: Any) -> None:
    """Write a zip file as other programs do. changed: attributes of the last member."""
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, data) in enumerate(content.items(), 1):
            head = zipfile.ZipInfo(name)
            head.compress_type = zipfile.ZIP_DEFLATED
            if number == len(content):
                for attribute, value in changed.items():
                    setattr(head, attribute, value)
            archive.writestr(head, data)
