"""The manifests of deploy/kubernetes fit the published schemas, and keep what their page promises."""

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
NAMES = ("job.yaml", "network-policy.yaml", "results.yaml")
VERSION = "1.33"  # the first in which user namespaces of pods are on by default


def load(name: str) -> Any:
    return YAML(typ="safe").load((FOLDER / name).read_text(encoding="utf-8"))


def broken(job: dict[str, Any]) -> list[str]:
    """What breaks a promise of docs/howto/kubernetes.md."""
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    script = container["args"][0]
    context = container["securityContext"]
    checks = {
        "root of the node": pod.get("hostUsers") is not False,
        "a privileged pod": context.get("privileged", False)
        or any(pod.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")),
        "a folder of the node": any("hostPath" in volume for volume in pod["volumes"]),
        "a token": pod.get("automountServiceAccountToken") is not False or "secret" in str(pod["volumes"]),
        "a pod that is used again": pod["restartPolicy"] != "Never",
        "no end": not pod.get("activeDeadlineSeconds") or not job["spec"].get("activeDeadlineSeconds"),
        "no bound": {"cpu", "memory", "ephemeral-storage"} - set(container["resources"]["limits"]),
        "an image that may change": "@sha256:" not in container["image"],
        "the request in a script": "$(cat" in script or "eval" in script or "`" in script,
        "capabilities that nobody named": context["capabilities"].get("drop") != ["ALL"],
        "walls that nobody asked for": "doctor --require full" not in script,
    }
    return [name for name, wrong in checks.items() if wrong]


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_fits_the_schema_of_its_kind(name: str) -> None:
    assert kubernetes_validate.validate(load(name), VERSION, strict=True) == VERSION


def test_there_is_no_manifest_without_these_checks() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == list(NAMES)


def test_a_manifest_with_a_field_of_no_schema_is_found() -> None:
    job = load("job.yaml")
    job["spec"]["completionsMode"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, VERSION, strict=True)


@pytest.mark.threat("R14")
def test_the_job_keeps_what_its_page_promises() -> None:
    assert broken(load("job.yaml")) == []


@pytest.mark.threat("R14")
@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        ("hostUsers", True, "root of the node"),
        ("hostNetwork", True, "a privileged pod"),
        ("automountServiceAccountToken", True, "a token"),
        ("restartPolicy", "OnFailure", "a pod that is used again"),
        ("activeDeadlineSeconds", None, "no end"),
        ("volumes", [{"name": "x", "hostPath": {"path": "/"}}], "a folder of the node"),
    ],
)
def test_a_job_that_breaks_a_promise_is_found(place: str, value: object, finding: str) -> None:
    job = copy.deepcopy(load("job.yaml"))
    job["spec"]["template"]["spec"][place] = value
    assert broken(job) == [finding]


def test_nothing_comes_in_and_no_private_address_is_reached() -> None:
    policy = load("network-policy.yaml")["spec"]
    assert policy["ingress"] == []
    (block,) = (one["ipBlock"] for rule in policy["egress"] for one in rule["to"] if "ipBlock" in one)
    assert {"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"} <= set(block["except"])
    assert policy["podSelector"]["matchLabels"] == load("job.yaml")["spec"]["template"]["metadata"]["labels"]
