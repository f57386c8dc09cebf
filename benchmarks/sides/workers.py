"""Sides that are a cluster of workers on this machine. The side's process is the first worker and starts the others.

It uses only the standard library.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile


def in_cluster(peer, work, options, set_up):
    """Returns a function that runs `work` on all workers of a cluster, in this process and others like it.

    Args:
      peer: the module of benchmarks/sides whose `work` takes a `cluster` and calls this function.
      options: the options of `work`, with `workers`, the number of workers, and `cluster`, None in the first worker.
      set_up: takes a directory shared by all workers and returns this worker's function to measure, warmed up, which
        returns "wall" and "cpu". It is called with TF_CONFIG in the environment.
    """
    cluster = options["cluster"]
    others = []
    if cluster is None:
        cluster = {"addresses": _free_addresses(options["workers"]), "index": 0, "folder": tempfile.mkdtemp()}
        for index in range(1, options["workers"]):
            given = json.dumps({**options, "cluster": {**cluster, "index": index}})
            command = [sys.executable, "-m", f"benchmarks.sides.{peer}", work, given]
            others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    task = {"type": "worker", "index": cluster["index"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": cluster["addresses"]}, "task": task})
    piece = set_up(cluster["folder"])
    for other in others:
        other.stdout.readline()  # the worker is ready

    def together():
        for other in others:
            print(file=other.stdin, flush=True)
        own = piece()
        answers = [json.loads(other.stdout.readline()) for other in others]
        return {**own, "cpu": own["cpu"] + sum(answer["cpu"] for answer in answers), "workers": [own, *answers]}

    return together


def _free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses
