"""Commands of OpenStack's clients, each in a fork of one process that has imported them.

A client imports for a second of processor time before it does anything. A fork has everything imported. From there on it
is the same program, except for what modules have read as they were imported: HOME is the server's.

    commands.py serve SOCKET              waits for commands
    commands.py run SOCKET NAME ARGS...   runs NAME (openstack or heat) there with this process's arguments, environment,
                                          folder, output and exit code
"""

import contextlib
import json
import os
import socket
import sys

# No client ends with this code.
NOT_ANSWERED = 125


def serve(path):
    import importlib
    import pkgutil
    import signal

    # The client reads its own name as it is imported.
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
        # The socket gets its name once the server listens.
        listener.bind(f"{path}.new")
        listener.listen(64)
        os.rename(f"{path}.new", path)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                try:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    become(caller, programs)
                finally:
                    os._exit(NOT_ANSWERED)
            caller.close()


def become(caller, programs):
    """Runs what the caller asks for, as if this process were the caller, and tells the caller its exit code."""
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
            return
        asked += part
    asked = json.loads(asked)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = asked["arguments"]
    # A caller that is killed takes the command with it.
    threading.Thread(target=end_with, args=[caller], daemon=True).start()
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
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    caller.sendall(bytes([int(status or 0) & 255]))


def end_with(caller):
    try:
        caller.recv(1)
    finally:
        os._exit(NOT_ANSWERED)


def run(path, *arguments):
    environment, folder = dict(os.environ), os.getcwd()
    asked = json.dumps({"arguments": arguments, "environment": environment, "folder": folder}).encode()
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(path)
            socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
            server.sendall(asked)
            status = server.recv(1)
    except OSError as error:
        print(f"the server of commands does not answer: {error}", file=sys.stderr)
        return NOT_ANSWERED
    return status[0] if status else NOT_ANSWERED


if __name__ == "__main__":
    sys.exit({"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:]))
