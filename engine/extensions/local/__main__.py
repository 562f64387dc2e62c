"""`python -m oversight.engine.extensions.local`: serve the local model until stdin ends.

It prints its base URL."""

import os
import signal
import sys
import threading

import click

from .server import MODEL, weights


@click.command()
@click.option("--slots", default=2, show_default=True, help="Concurrent calls.")
@click.option("--context", default=4096, show_default=True, help="Tokens of each slot.")
def main(slots: int, context: int) -> None:
    """Run llama.cpp's server of OpenAI chat completions on a free loopback port."""
    # On a busy machine, threads that spin while they wait are several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = slots
    # The context is divided among the slots.
    params.n_ctx = context * slots
    # One thread per usable core: threads wait for each other at every step, so more are slower.
    affinity = getattr(os, "sched_getaffinity", None)
    threads = len(affinity(0)) if affinity else os.cpu_count() or 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_gpu_layers = 0
    params.cache_ram_mib = 512
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    # The parent process holds the other end of stdin, which closes however the parent ends.
    threading.Thread(target=_end_with_input, args=(ended,), daemon=True).start()
    ended.wait()
    # llama.cpp's threads have nothing to save.
    os._exit(0)


def _end_with_input(ended: threading.Event) -> None:
    sys.stdin.buffer.read()
    ended.set()


if __name__ == "__main__":
    main()
