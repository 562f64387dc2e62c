"""A Ray cluster of several nodes on this machine, whose nodes can be killed.

`python -m tests.ray_cluster` prints its address; at each line that it reads it kills a node, and
says so. It ends when its input does.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.command_line import environment

NODES = 2


class RayCluster:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.address = self._line()

    def kill_node(self) -> None:
        """kill -9 of all processes that Ray started on one node."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._line() == "killed"

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the cluster ended"
        return line


@contextmanager
def ray_cluster(folder: Path, variables: Mapping[str, str]) -> Iterator[RayCluster]:
    """A head without cores, and two nodes with two cores each, while the body runs.

    folder: for Ray's files. variables: of the environment of its nodes.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ray_cluster"],
        env=environment({"RAY_TMPDIR": str(folder), "RAY_USAGE_STATS_ENABLED": "0", **variables}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield RayCluster(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _serve() -> None:
    from ray.cluster_utils import Cluster

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Ray prints much, and some of it to stdout.
    os.dup2(2, 1)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=2) for _ in range(NODES)]
    cluster.wait_for_nodes()
    answers.write(f"{cluster.address}\n")
    for _ in sys.stdin:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        answers.write("killed\n")
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
