"""How an agent is reached, and what an answer that breaks off means."""

from __future__ import annotations

from tests.cli.remote import api, backend, elf, job

__all__ = ["api", "backend", "job"]


def test_an_address_that_speaks_no_http_is_named_without_its_bytes() -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(100)
                peer.sendall(b"\x00\x1b[2Jhello\n")

        thread = threading.Thread(target=greet)
        thread.start()
        done = elf("get", "jobs", "--api", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert done.exit_code == 69
    assert "is not an agent's API" in done.stderr
    assert "hello" not in done.stderr
