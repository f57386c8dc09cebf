"""Runs a process of a tf.data service until it is stopped.

python data_service.py --port 5000                                              a dispatcher
python data_service.py --port 5001 --dispatcher host:5000 --address host:5001   a worker, reachable at --address
"""

import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--dispatcher")
parser.add_argument("--address")
args = parser.parse_args()

service = tf.data.experimental.service
if args.dispatcher:
    config = service.WorkerConfig(dispatcher_address=args.dispatcher, worker_address=args.address, port=args.port)
    server = service.WorkerServer(config)
else:
    server = service.DispatchServer(service.DispatcherConfig(port=args.port))
server.join()
