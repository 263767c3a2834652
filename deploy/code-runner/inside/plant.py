"""Plant in this container what programs are after, and stay until stdin ends; then say who reached the listener.

Usage: plant.py FOLDER MARK. Printed: the listener's port on a line; at the end the number of visits. The files may be
read, and the folder be written, by every user: only walls keep a program from them.
"""

import pathlib
import socket
import sys
import threading


def serve(listener: socket.socket, visits: list[bytes], mark: bytes) -> None:
    """Answer whoever comes with the mark."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(2)
            visits.append(b"")
            try:
                visits[-1] = connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + mark)
            except OSError:
                continue


def main() -> None:
    """Plant, wait, tell."""
    folder, mark = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir()
    folder.chmod(0o777)
    texts = {
        "txt": mark,
        "json": f'{{"k": "{mark}"}}',
        "js": f"globalThis.postMessage?.('{mark}'); export default '{mark}'",
        "ts": f"const mark: string = '{mark}'; export default mark",
        "cjs": f"module.exports = '{mark}'",
        "wasm": "",
    }
    for kind, text in texts.items():
        (folder / f"secret.{kind}").write_text(text)
    (folder / "closed.txt").write_text(mark)
    (folder / "closed.txt").chmod(0o600)
    listener = socket.create_server(("127.0.0.1", 0))
    visits: list[bytes] = []
    threading.Thread(target=serve, args=(listener, visits, mark.encode()), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    print(len(visits), *sorted(path.name for path in folder.iterdir()), flush=True)


if __name__ == "__main__":
    main()
