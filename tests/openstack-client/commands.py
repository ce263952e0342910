"""Commands of OpenStack's clients, each in a fork of one process that has imported them.

A client imports for a second of processor time before it does anything; a fork has everything imported, and is the same
program from there on.

    commands.py serve SOCKET              waits for commands
    commands.py run SOCKET NAME ARGS...   runs NAME (openstack or heat) there with this process's arguments, environment,
                                          folder, output and exit code
"""

import json
import os
import socket
import sys

NOT_ANSWERED = 125


def serve(path):
    import importlib
    import pkgutil
    import signal

    # The name that it calls itself by is looked up as it is imported.
    sys.argv = ["openstack"]
    import heatclient.osc.v1
    import heatclient.shell
    import heatclient.v1.client
    import heatclient.v1.shell
    import openstackclient.shell

    for module in pkgutil.iter_modules(heatclient.osc.v1.__path__):
        importlib.import_module(f"heatclient.osc.v1.{module.name}")
    programs = {"openstack": openstackclient.shell.main, "heat": heatclient.shell.main}
    with socket.socket(socket.AF_UNIX) as listener:
        # It has its name when it answers.
        listener.bind(f"{path}.new")
        listener.listen(64)
        os.rename(f"{path}.new", path)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                become(caller, programs)
            caller.close()


def become(caller, programs):
    """Runs what the caller asks for as if the caller were it, and does not return."""
    import threading
    import traceback

    head, descriptors, _, _ = socket.recv_fds(caller, 4, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    asked = b""
    while len(asked) < int.from_bytes(head, "big"):
        part = caller.recv(65536)
        if not part:
            os._exit(NOT_ANSWERED)
        asked += part
    asked = json.loads(asked)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = asked["arguments"]
    # A caller that is killed takes the command with it.
    threading.Thread(target=lambda: caller.recv(1) or os._exit(NOT_ANSWERED), daemon=True).start()
    try:
        status = programs[sys.argv[0]]()
    except SystemExit as end:
        status = end.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    caller.sendall(bytes([int(status or 0) & 255]))
    os._exit(0)


def run(path, *arguments):
    environment, folder = dict(os.environ), os.getcwd()
    asked = json.dumps({"arguments": arguments, "environment": environment, "folder": folder}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(asked)
        status = server.recv(1)
    return status[0] if status else NOT_ANSWERED


if __name__ == "__main__":
    sys.exit({"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:]))
