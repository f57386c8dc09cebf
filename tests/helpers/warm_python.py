"""Python processes that start with TensorFlow imported: forks of a server that has imported it and done nothing else.

Importing TensorFlow takes seconds of processor time, and a fork takes none of it. Tests of what a process does after
its imports use these; tests of what is imported, and when, start a fresh Python.
"""

import gc
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
# In this order: estimator_train sets what TensorFlow reads when it is imported. The last two are for evaluations, which
# import them late. Not Keras 3: whether it is imported says which Keras a user means.
_FORKS.set_forkserver_preload(
    ["estimator_train", "tensorflow", "tf_keras", "estimator_train.app.cli", "estimator_train.app.running.reporting"]
    + ["scipy.stats", "sklearn.metrics"]
)
_READ_BY_IMPORTS = ("TF_USE_LEGACY_KERAS", "TF_ENABLE_ONEDNN_OPTS")


class Popen:
    """A process that runs `python *arguments`, where these are a script's path or "-m" and a module's name first.

    stdout and stderr are paths of files to append to. The methods are those of subprocess.Popen.
    """

    def __init__(self, arguments, cwd=None, env=None, stdout=os.devnull, stderr=os.devnull):
        arguments = [str(argument) for argument in arguments]
        environment = dict(os.environ if env is None else env)
        self._process = _FORKS.Process(
            target=_run_in_fork, args=(arguments, str(cwd or os.getcwd()), environment, str(stdout), str(stderr))
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a warm Python", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self._process.terminate()

    def kill(self):
        self._process.kill()


def run(arguments, folder, timeout=300, **settings):
    """Returns the CompletedProcess of a process, with its output as text; files in `folder` take the output."""
    outputs = [Path(folder) / f"{kind}-{os.urandom(4).hex()}.log" for kind in ("stdout", "stderr")]
    process = Popen(arguments, stdout=outputs[0], stderr=outputs[1], **settings)
    try:
        process.wait(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, *(path.read_text() for path in outputs))


def stop():
    """Ends the server and waits for it, so that `time` counts the processor time of its forks with this process's."""
    multiprocessing.forkserver._forkserver._stop()  # it has no public way to end


def _run_in_fork(arguments, folder, environment, stdout, stderr):
    for path, descriptor in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    # A process started in the background or by nohup, as this server may have been, ignores them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(folder)
    gc.freeze()  # see tests/conftest.py
    gc.set_threshold(50_000)
    imported = {name: os.environ[name] for name in _READ_BY_IMPORTS if name in os.environ}
    os.environ.clear()
    os.environ.update(imported | environment)
    try:
        _run_main(*arguments)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())  # multiprocessing would print the error itself
        sys.exit(1)


def _run_main(program, *arguments):
    if program == "-m":
        module, *arguments = arguments
        sys.path.insert(0, os.getcwd())
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(program))
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
