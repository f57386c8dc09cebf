"""Kubernetes manifests in examples/cluster give every task a valid TF_CONFIG and the same program."""

import json
from pathlib import Path

import pytest
import yaml

import estimator_train as et
from estimator_train._engine.host.cluster_task import ClusterTask, read_tf_config

CLUSTER = Path(__file__).parents[1] / "examples" / "cluster"
MANIFESTS = sorted(CLUSTER.glob("*.yaml"))
SCRIPTS = {"": "train.py", "_keras": "train_keras.py"}
TASKS = {"": {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}, "_keras": {"chief": 1, "worker": 2, "evaluator": 1}}


def objects_of(path):
    """Returns the Kubernetes objects in a file, with Lists expanded."""
    for document in yaml.safe_load_all(path.read_text()):
        yield from document["items"] if document["kind"] == "List" else [document]


def jobs_of(variant):
    return {
        each["metadata"]["name"]: each for each in objects_of(CLUSTER / f"jobs{variant}.yaml") if each["kind"] == "Job"
    }


def replicas_of(variant):
    (job,) = (each for each in objects_of(CLUSTER / f"tfjob{variant}.yaml") if each["kind"] == "TFJob")
    return {name.lower(): spec for name, spec in job["spec"]["tfReplicaSpecs"].items()}


def containers_of(value):
    """Every container anywhere in an object."""
    if isinstance(value, dict):
        yield from value.get("containers", [])
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from containers_of(part)


def place_of(tf_config, monkeypatch, model_dir):
    monkeypatch.setenv("TF_CONFIG", tf_config)
    return et.RunConfig(model_dir)


def test_every_container_runs_the_same_image():
    images = [container["image"] for path in MANIFESTS for container in containers_of(list(objects_of(path)))]
    assert len(images) == 4 + 4 + 3 + 3 + 2 + 3 + 1
    assert set(images) == {"registry.example.com/estimator-train"}


def pods_of(value):
    """Yields the spec of every pod anywhere in an object."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from pods_of(part)


def test_every_pod_runs_as_the_user_of_the_image():
    lines = (CLUSTER / "Dockerfile").read_text().splitlines()
    user = int(lines[-1].removeprefix("USER "))
    assert f"RUN useradd --uid {user} --create-home trainer" in lines
    contexts = [pod["securityContext"] for path in MANIFESTS for pod in pods_of(list(objects_of(path)))]
    expected = {"runAsNonRoot": True, "fsGroup": user, "seccompProfile": {"type": "RuntimeDefault"}}
    assert contexts == [expected] * 20
    containers = [each for path in MANIFESTS for each in containers_of(list(objects_of(path)))]
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}  # as the pod standard asks
    assert [each["securityContext"] for each in containers] == [restricted] * 20


def test_the_builder_is_sent_what_the_image_copies():
    kept = [line[1:] for line in (CLUSTER / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"]
    copies = [line.split() for line in (CLUSTER / "Dockerfile").read_text().splitlines() if line.startswith("COPY")]
    copied = [source.removesuffix("/*.py") for _, *sources, _ in copies for source in sources]
    assert kept == copied


@pytest.mark.parametrize("variant", SCRIPTS)
def test_every_task_runs_the_same_command_of_a_script_that_is_there(variant):
    paths = [path for kind in ("tfjob", "jobs", "jobset") if (path := CLUSTER / f"{kind}{variant}.yaml").exists()]
    commands = [container["command"] for path in paths for container in containers_of(list(objects_of(path)))]
    assert all(command == commands[0] for command in commands)
    assert commands[0][:3] == ["estimator_train", "run", SCRIPTS[variant]]
    assert (CLUSTER / SCRIPTS[variant]).is_file()


@pytest.mark.parametrize("variant", SCRIPTS)
def test_jobs_give_each_task_its_place(variant, monkeypatch, tmp_path):
    jobs = jobs_of(variant)
    assert {name: job["spec"]["completions"] for name, job in jobs.items()} == TASKS[variant]
    (service,) = (each for each in objects_of(CLUSTER / f"jobs{variant}.yaml") if each["kind"] == "Service")
    pods = {name: [f"{name}-{index}" for index in range(job["spec"]["completions"])] for name, job in jobs.items()}
    for name, job in jobs.items():
        assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["parallelism"] == job["spec"]["completions"]
        template = job["spec"]["template"]
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        environment = {each["name"]: each for each in container["env"]}
        # Kubernetes fills in only what stands before.
        assert list(environment) == ["TASK_TYPE", "TASK_INDEX", "TF_CONFIG"]
        for index in range(len(pods[name])):
            text = environment["TF_CONFIG"]["value"].replace("$(TASK_TYPE)", name).replace("$(TASK_INDEX)", str(index))
            config = place_of(text, monkeypatch, tmp_path)
            assert (config.task_type, config.task_id) == (name, index)
            trainers = {job: hosts for job, hosts in pods.items() if job != "evaluator"}
            assert json.loads(text)["cluster"] == {
                job: [f"{host}.training:2222" for host in hosts] for job, hosts in trainers.items()
            }


@pytest.mark.parametrize("variant", SCRIPTS)
def test_the_tfjob_has_the_tasks_of_the_jobs(variant, monkeypatch, tmp_path):
    replicas = {name: spec["replicas"] for name, spec in replicas_of(variant).items()}
    assert replicas == TASKS[variant]
    # As the operator makes it: the evaluator is not in the cluster.
    cluster = {
        name: [f"training-{name}-{index}.default.svc:2222" for index in range(count)]
        for name, count in replicas.items()
        if name != "evaluator"
    }
    for name, count in replicas.items():
        for index in range(count):
            tf_config = {"cluster": cluster, "task": {"type": name, "index": index}, "environment": "cloud"}
            config = place_of(json.dumps(tf_config), monkeypatch, tmp_path)
            assert (config.task_type, config.task_id, config.is_chief) == (name, index, name == "chief")
    for spec in replicas_of(variant).values():
        (container,) = spec["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"  # else the operator sets no TF_CONFIG


def replicated_jobs_of(job_set):
    return {each["name"]: each["template"]["spec"] for each in job_set["replicatedJobs"]}


def environment_of(container, task_type, index):
    """Returns TF_CONFIG as Kubernetes fills it in, from variables that stand before it."""
    *names, last = container["env"]
    assert last["name"] == "TF_CONFIG" and {each["name"] for each in names} <= {"TASK_TYPE", "TASK_INDEX"}
    return last["value"].replace("$(TASK_TYPE)", task_type).replace("$(TASK_INDEX)", str(index))


def test_the_jobset_gives_each_task_its_place(monkeypatch, tmp_path):
    (job_set,) = (each for each in objects_of(CLUSTER / "jobset_keras.yaml") if each["kind"] == "JobSet")
    jobs, name = replicated_jobs_of(job_set["spec"]), job_set["metadata"]["name"]
    assert {job: spec["completions"] for job, spec in jobs.items()} == TASKS["_keras"]
    hosts = {job: [f"{name}-{job}-0-{index}.{name}:2222" for index in range(jobs[job]["completions"])] for job in jobs}
    for job, spec in jobs.items():
        assert spec["completionMode"] == "Indexed" and spec["parallelism"] == spec["completions"]
        (container,) = spec["template"]["spec"]["containers"]
        for index in range(spec["completions"]):
            text = environment_of(container, job, index)
            config = place_of(text, monkeypatch, tmp_path)
            assert (config.task_type, config.task_id, config.is_chief) == (job, index, job == "chief")
            assert json.loads(text)["cluster"] == {each: hosts[each] for each in ("chief", "worker")}


def test_the_trainjob_gives_each_node_its_place(monkeypatch, tmp_path):
    objects = {each["kind"]: each for each in objects_of(CLUSTER / "trainjob_keras.yaml")}
    job, runtime = objects["TrainJob"], objects["TrainingRuntime"]
    assert job["spec"]["runtimeRef"] == {
        "apiGroup": runtime["apiVersion"].partition("/")[0],
        "kind": "TrainingRuntime",
        "name": runtime["metadata"]["name"],
    }
    count, name = job["spec"]["trainer"]["numNodes"], job["metadata"]["name"]
    assert count == runtime["spec"]["mlPolicy"]["numNodes"] == 3
    assert job["spec"]["trainer"]["command"][:3] == ["estimator_train", "run", SCRIPTS["_keras"]]
    (node,) = replicated_jobs_of(runtime["spec"]["template"]["spec"]).values()
    (container,) = node["template"]["spec"]["containers"]
    assert container["name"] == "node"  # else the trainer does not set its command
    for index in range(count):
        text = environment_of(container, "", index)
        monkeypatch.setenv("TF_CONFIG", text)
        task = ClusterTask.from_tf_config(read_tf_config(), synchronous=True)
        assert (task.task_type, task.task_id, task.is_chief) == ("worker", index, index == 0)
        hosts = [f"{name}-node-0-{each}.{name}:2222" for each in range(count)]
        assert json.loads(text)["cluster"] == {"worker": hosts}


# The fields that the manifests may use of kinds whose schemas Kubernetes itself does not have.
CUSTOM = {
    "JobSet": {"network", "failurePolicy", "successPolicy", "replicatedJobs"},
    "TFJob": {"runPolicy", "tfReplicaSpecs"},
    "TrainJob": {"runtimeRef", "trainer"},
    "TrainingRuntime": {"mlPolicy", "template"},
}


def validated(each):
    """Yields the Kubernetes objects of one of the manifests: itself, or the Jobs and pods within a custom one."""
    if each["kind"] not in CUSTOM:
        yield each
        return
    assert each["spec"].keys() <= CUSTOM[each["kind"]]
    job_set = each["spec"].get("template", {}).get("spec", each["spec"])
    if "replicatedJobs" in job_set:
        for spec in replicated_jobs_of(job_set).values():
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}
    for replica in each["spec"].get("tfReplicaSpecs", {}).values():
        assert replica.keys() == {"replicas", "restartPolicy", "template"}
        template = {"kind": "PodTemplate", "metadata": {"name": "pod"}, "template": replica["template"]}
        yield {"apiVersion": "v1", **template}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_have_no_field_that_kubernetes_does_not_know(path):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    found = [part for each in objects_of(path) for part in validated(each)]
    assert len(found) > 1
    for part in found:
        kubernetes_validate.validate(part, "1.27", strict=True)  # the oldest that README promises
    found[-1]["spec"]["unknown"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found[-1], "1.27", strict=True)


def test_the_workers_of_the_data_service_find_the_dispatcher_and_the_files():
    by_kind = {(each["kind"], each["metadata"]["name"]): each for each in objects_of(CLUSTER / "data_service.yaml")}
    dispatcher = by_kind["Service", "data-dispatcher"]
    pod = by_kind["Deployment", "data-dispatcher"]["spec"]["template"]
    assert dispatcher["spec"]["selector"] == pod["metadata"]["labels"]
    port = str(dispatcher["spec"]["ports"][0]["port"])
    assert pod["spec"]["containers"][0]["command"][-2:] == ["--port", port]
    worker = by_kind["Deployment", "data-worker"]["spec"]["template"]["spec"]
    (container,) = worker["containers"]
    assert f"data-dispatcher:{port}" in container["command"]
    (trainer,) = jobs_of("")["chief"]["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == trainer["volumeMounts"]  # the same paths


def labels_of(value):
    """Yields the labels of every pod template in an object."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value["metadata"]["labels"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from labels_of(part)


def is_selected(labels, selector):
    expressions = selector.get("matchExpressions", [])
    assert {expression["operator"] for expression in expressions} <= {"In"}
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels[expression["key"]] in expression["values"] for expression in expressions
    )


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_servers_are_reached_by_pods_of_the_training_only(path):
    (policy,) = (each["spec"] for each in objects_of(path) if each["kind"] == "NetworkPolicy")
    assert policy["policyTypes"] == ["Ingress"]
    ((peer,),) = (rule["from"] for rule in policy["ingress"])
    pods = list(labels_of(list(objects_of(path))))
    assert pods
    for labels in [*pods, {"app": "training"}]:  # the training reads from the data service
        assert is_selected(labels, peer["podSelector"])
    for labels in pods:
        assert is_selected(labels, policy["podSelector"])
    assert not is_selected({"app": "other"}, peer["podSelector"])
