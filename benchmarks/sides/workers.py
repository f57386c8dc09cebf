"""Sides that are a cluster of workers on this machine: the first of them is the side's process, and starts the others.

Only the standard library.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile


def in_cluster(peer, work, options, set_up):
    """Returns the piece of a `work` that all workers of a cluster do together, in this process and in others like it.

    Args:
      peer: the module of benchmarks/sides whose `work` takes a `cluster`, and calls this.
      options: what it was given: a dict with `workers`, how many there are, and `cluster`, None in the first of them.
      set_up: a function of a folder that all workers see; it returns the piece of this worker, warmed up. TF_CONFIG is
        in the environment when it is called. The piece returns "wall" and "cpu".
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
        other.stdout.readline()  # it is ready

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
