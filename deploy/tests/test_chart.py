"""The chart, by helm, by strict schemas of Kubernetes, and by `rampmeter check`."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from servers import binary

from shipped import CHART, DEPLOY

# The oldest that the chart is for, and the newest there is.
VERSIONS = ("1.30", "1.37")
# What the operator of Prometheus and KEDA add to Kubernetes, and where their types are.
ADDED = {
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
    "keda.sh/v1alpha1": "cloudcoil.models.keda.v1alpha1",
}
# Every switch turned: all that can be rendered is.
ALL: dict[str, Any] = {
    "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    "nats": {
        "urlSecret": {"name": "scheduler-url"},
        "credentialsSecret": {"name": "scheduler-credentials"},
        "tlsSecret": {"name": "nats-tls", "clientCertificate": True},
        "inboxPrefix": "_INBOX_scheduler",
        "inboxes": ["_INBOX_worker"],
        "stateKeySecret": {"name": "state-key"},
        "replicas": 3,
    },
    "http": {"front": True, "tokensSecret": {"name": "tokens"}, "hosts": ["permits.example.com"],
             "tlsSecret": {"name": "http-tls"}, "behindTls": True},
    "networkPolicy": {
        "metrics": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "front": [{"podSelector": {"matchLabels": {"app": "worker"}}}],
        "egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "proxy": {
        "enabled": True,
        "nats": {
            "urlSecret": {"name": "worker-url"},
            "credentialsSecret": {"name": "worker-credentials"},
            "tlsSecret": {"name": "nats-tls"},
            "inboxPrefix": "_INBOX_worker",
        },
        "program": {
            "image": "your-program:1",
            "env": [{"name": "API_URL", "value": "http://127.0.0.1:9470"}],
            "autoscaling": {"enabled": True, "demandQuery": 'sum(rampmeter_jobs{state="delayed"})'},
        },
    },
    "env": [{"name": "CLIENT_SECRET", "valueFrom": {"secretKeyRef": {"name": "provider", "key": "secret"}}}],
    "serviceAccount": {"annotations": {"a": "b"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "extraConfiguration": "# more\n",
}
FRONT = {"http": {"front": True, "tokenSecret": {"name": "token"}}}
SIDECAR = {"proxy": {"enabled": True, "program": {"image": "your-program:1"}}}


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    given = [*arguments, "--values", "-"] if values else list(arguments)
    return subprocess.run(["helm", *given], input=yaml.safe_dump(values or {}), capture_output=True, text=True)


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(values: dict[str, Any] | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    """What is installed as `demo` in the namespace `prod`, by kind and name."""
    done = helm("template", "demo", str(CHART), "--namespace", "prod", values=values)
    assert done.returncode == 0, done.stderr
    return {(found["kind"], found["metadata"]["name"]): found for found in documents(done.stdout)}


def validate(manifest: dict[str, Any]) -> None:
    """Fails at a field that there is not, at a missing one, and at a value of another type."""
    module = ADDED.get(manifest["apiVersion"])
    if module is None:
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
        return
    model = getattr(importlib.import_module(module), manifest["kind"])
    read = model.model_validate(manifest).model_dump(by_alias=True, exclude_unset=True, mode="json")
    assert read == manifest, "a field is not in the types"


@pytest.mark.parametrize("values", [None, ALL, FRONT, SIDECAR], ids=["defaults", "all", "front", "sidecar"])
class TestRendered:
    def test_helm_finds_nothing(self, values: dict[str, Any] | None) -> None:
        done = helm("lint", "--strict", str(CHART), values=values)
        assert done.returncode == 0, done.stdout

    def test_manifests_keep_to_the_schemas(self, values: dict[str, Any] | None) -> None:
        for manifest in rendered(values).values():
            validate(manifest)

    def test_no_line_ends_with_blanks(self, values: dict[str, Any] | None) -> None:
        text = helm("template", "demo", str(CHART), values=values).stdout
        assert [line for line in text.splitlines() if line.strip() and line != line.rstrip()] == []

    def test_configurations_are_valid(self, values: dict[str, Any] | None, tmp_path: Path) -> None:
        found = [document for (kind, _), document in rendered(values).items() if kind == "ConfigMap"]
        for name, text in [file for document in found for file in document["data"].items()]:
            configuration = tmp_path / name
            configuration.write_text(text)
            done = subprocess.run([binary(), "check", "--config", str(configuration)], capture_output=True, text=True)
            # The secrets are on no machine but the cluster's.
            excused = "/run/secrets/rampmeter/" in done.stderr
            assert done.returncode == 0 or excused, done.stderr

    def test_a_stop_fits_the_grace_period(self, values: dict[str, Any] | None) -> None:
        for (kind, name), manifest in rendered(values).items():
            if kind == "Deployment":
                pod = manifest["spec"]["template"]["spec"]
                sleep = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
                # deploy/README.md: a scheduler wants ten seconds; a proxy its drain and five more.
                wanted = 25 if name.endswith("-program") else sleep + 10
                assert pod["terminationGracePeriodSeconds"] > wanted, name

    def test_selectors_find_their_pods(self, values: dict[str, Any] | None) -> None:
        found = rendered(values)
        pods = {
            name: manifest["spec"]["template"]["metadata"]["labels"]
            for (kind, name), manifest in found.items()
            if kind == "Deployment"
        }

        def matched(selector: dict[str, str]) -> list[str]:
            return [name for name, labels in pods.items() if selector.items() <= labels.items()]

        for (kind, name), manifest in found.items():
            spec = manifest.get("spec", {})
            if kind == "Service":
                assert matched(spec["selector"]) == ["demo-rampmeter"]
            elif kind in ("PodDisruptionBudget", "Deployment", "PodMonitor"):
                wanted = "demo-rampmeter" + ("-program" if name != "demo-rampmeter" else "")
                assert matched(spec["selector"]["matchLabels"]) == [wanted], kind
            elif kind == "NetworkPolicy":
                assert matched(spec["podSelector"]["matchLabels"]) == ["demo-rampmeter"]
            elif kind == "ScaledObject":
                assert spec["scaleTargetRef"]["name"] in pods


def test_the_defaults_are_two_schedulers_with_their_guards() -> None:
    found = rendered()
    kinds = {kind for kind, _ in found}
    assert kinds == {"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
    spec = found["Deployment", "demo-rampmeter"]["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, 0)
    assert found["PodDisruptionBudget", "demo-rampmeter"]["spec"]["maxUnavailable"] == 1
    [scheduler] = spec["template"]["spec"]["containers"]
    probes = [scheduler[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")]
    assert probes == ["/healthz", "/readyz", "/healthz"]
    assert scheduler["securityContext"]["readOnlyRootFilesystem"] and scheduler["securityContext"]["runAsNonRoot"]


def test_secrets_are_named_and_never_written() -> None:
    found = rendered(ALL)
    assert not [kind for kind, _ in found if kind == "Secret"]
    scheduler = found["Deployment", "demo-rampmeter"]["spec"]["template"]["spec"]
    program = found["Deployment", "demo-rampmeter-program"]["spec"]["template"]["spec"]

    def named(pod: dict[str, Any]) -> list[str]:
        return [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]

    assert named(scheduler) == ["scheduler-credentials", "nats-tls", "state-key", "tokens", "http-tls"]
    # A proxy may do what workers may do, and has no secret of a scheduler.
    assert named(program) == ["worker-credentials", "nats-tls"]
    [sidecar] = program["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "worker-url", "key": "url"}


def test_workers_follow_the_limits() -> None:
    found = rendered(ALL)
    scaled = found["ScaledObject", "demo-rampmeter-program"]["spec"]
    assert "resource:rampmeter_useful_workers:mean5m" in scaled["triggers"][0]["metadata"]["query"]
    assert scaled["advanced"]["scalingModifiers"]["formula"] == "min(useful, demand)"
    assert "replicas" not in found["Deployment", "demo-rampmeter-program"]["spec"], "the autoscaler sets them"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"replica": 3}, "replica"),
        ({"nats": {"url": "nats://scheduler:password@nats:4222"}}, "pattern"),
        ({"http": {"front": True}}, "http.front needs"),
        ({"shutdown": {"stopSeconds": 3}}, "stopSeconds"),
        ({"proxy": {"enabled": True, "port": 9470}}, "port"),
        ({"nats": {"replicas": 2}}, "replicas"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], why: str) -> None:
    done = helm("template", "demo", str(CHART), values=values)
    assert done.returncode != 0 and why in done.stderr, done.stderr


def test_the_version_is_that_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    shown = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert (chart["version"], chart["appVersion"]) == (shown, shown)


@pytest.mark.parametrize("path", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=lambda path: path.name)
def test_other_manifests_keep_to_the_schemas(path: Path) -> None:
    found = documents(path.read_text())
    assert found
    for manifest in found:
        validate(manifest)


def test_the_schemas_are_strict() -> None:
    manifest = rendered()["Service", "demo-rampmeter"]
    manifest["spec"]["prots"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(manifest)
    scaled = rendered(ALL)["ScaledObject", "demo-rampmeter-program"]
    scaled["spec"]["minReplicas"] = 1
    with pytest.raises(AssertionError):
        validate(scaled)
