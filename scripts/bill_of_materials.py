"""Write an image's bill of materials as CycloneDX 1.6 from the inventory that scripts/image_inventory.py prints.

    … | python -m scripts.bill_of_materials holodeck-action sha256:0123… >image.cdx.json

The arguments are the name of the image and its digest. Equal inventories give equal bytes: the serial number follows
from the digest, and the time is that of SOURCE_DATE_EPOCH. Exit code 1 if the file does not fit the schema.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from holodeck_action import __version__


def components(inventory: Mapping[str, Any]) -> Iterator[Component]:
    """Yield the components of an inventory, each with its package URL."""
    system = inventory["system"]
    kind = ComponentType.OPERATING_SYSTEM
    yield Component(name=system["name"], version=system["version"], type=kind, bom_ref=system["name"])
    for package in inventory["debian"]:
        url = PackageURL("deb", system["name"], package["name"], package["version"], {"arch": package["architecture"]})
        yield _component(package, url)
    for package in inventory["python"]:
        name = package["name"].lower().replace("_", "-")
        yield _component(package, PackageURL("pypi", None, name, package["version"]))
    for program in inventory["programs"]:
        url = PackageURL("generic", None, program["name"], program["version"])
        yield _component(program, url, ComponentType.APPLICATION)


def _component(described: Mapping[str, str], url: PackageURL, kind: ComponentType = ComponentType.LIBRARY) -> Component:
    stated = described.get("licence")
    licences = [LicenseFactory().make_from_string(stated)] if stated else []
    return Component(
        name=described["name"],
        version=described["version"],
        type=kind,
        purl=url,
        bom_ref=url.to_string(),
        licenses=licences,
    )


def bill_of_materials(inventory: Mapping[str, Any], name: str, digest: str) -> str:
    """Return the bill of materials of an image as JSON.

    Raises:
        ValueError: it does not fit the schema of CycloneDX.
    """
    image = Component(
        name=name,
        version=__version__,
        type=ComponentType.CONTAINER,
        bom_ref=digest,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))],
    )
    bom = Bom(components=components(inventory), serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest))
    bom.metadata.component = image
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    bom.register_dependency(image, bom.components)
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ValueError(f"the bill of materials does not fit its schema: {wrong}")
    return text + "\n"


def main() -> int:
    """Read the inventory from standard input, and write the bill of materials to standard output."""
    name, digest = sys.argv[1:]
    try:
        sys.stdout.write(bill_of_materials(json.load(sys.stdin), name, digest))
    except ValueError as error:
        print(f"bill_of_materials: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
