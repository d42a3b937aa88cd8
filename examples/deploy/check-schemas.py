"""Compares manifests with the schemas of their programs: check-schemas.py SCHEMA… -- MANIFEST…

A SCHEMA is a CustomResourceDefinition or the JSON schema of compose files. A field that a schema does not know is an
error, too.
"""
import json
import sys

import jsonschema
import yaml


def close(schema):
    """Refuses unknown fields, as kubectl does with --validate=strict."""
    if isinstance(schema, list):
        for part in schema:
            close(part)
    if not isinstance(schema, dict):
        return
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in schema.values():
        close(part)


def read(path):
    """Returns the schemas of a file, by the kind and the version of the manifests."""
    with open(path) as file:
        content = json.load(file) if path.endswith(".json") else yaml.safe_load(file)
    if path.endswith(".json"):
        return {(None, None): content}
    schemas = {}
    for version in content["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["metadata"] = {"type": "object"}
        close(schema)
        schemas[content["spec"]["names"]["kind"], f"{content['spec']['group']}/{version['name']}"] = schema
    return schemas


split = sys.argv.index("--")
schemas = {}
for path in sys.argv[1:split]:
    schemas.update(read(path))
for path in sys.argv[split + 1:]:
    with open(path) as file:
        for manifest in yaml.safe_load_all(file):
            jsonschema.validate(manifest, schemas[manifest.get("kind"), manifest.get("apiVersion")])
