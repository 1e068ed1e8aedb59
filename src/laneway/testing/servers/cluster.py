"""A private cluster: masters that share the slots, with or without replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from laneway.testing.servers.endpoint import CommandRefused
from laneway.testing.servers.single import BUS, HOST, ValkeyServer, start, wait_until

MASTERS = 3
SLOTS = 16_384
NODE_TIMEOUT = 1_000  # milliseconds after which a node that is silent counts as failing

CONFIG = {
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
    "cluster-node-timeout": str(NODE_TIMEOUT),
}


class ValkeyCluster:
    """Three masters, each with as many replicas as were asked for. `url` names all of the nodes.

    A key's master is asked for by the key: `kill`, `stop` and `cont` go to the node itself, `cluster.master(key)`.
    """

    def __init__(self, nodes: Sequence[ValkeyServer]) -> None:
        self.nodes = tuple(nodes)
        self.url = f"redis+cluster://{','.join(f'{HOST}:{node.port}' for node in nodes)}"

    def master(self, key: str) -> ValkeyServer:
        """Return the master that has the key, as the first node that is alive sees it."""
        asked = next(node for node in self.nodes if node.alive)
        slot = asked.command("CLUSTER", "KEYSLOT", key)
        ranges = asked.command("CLUSTER", "SLOTS")
        assert isinstance(slot, int)
        assert isinstance(ranges, list)
        for entry in ranges:
            match entry:
                case [int(first), int(last), [_, int(port), *_], *_] if first <= slot <= last:
                    return self._node(port)
        raise LookupError(f"no node has slot {slot}")

    def fail_over(self, key: str) -> ValkeyServer:
        """Kill the key's master with -9, wait until a replica has taken its place, and return that one."""
        old = self.master(key)
        old.kill()
        wait_until(lambda: self.is_settled and self.master(key) is not old, "a replica has taken over")
        return self.master(key)

    @property
    def is_settled(self) -> bool:
        """Tell whether all nodes that are alive see all slots served, and the same masters."""
        views = set()
        for node in self.nodes:
            if node.alive:
                if node.facts("cluster info")["cluster_state"] != "ok":
                    return False
                ranges = node.command("CLUSTER", "SLOTS")
                assert isinstance(ranges, list)
                views.add(str(sorted(str(entry[:3]) for entry in ranges if isinstance(entry, list))))
        return len(views) == 1

    def restart(self) -> None:
        """Start the nodes again that are dead, and wait until the cluster is whole."""
        for node in self.nodes:
            if not node.alive:
                node.restart()
        wait_until(lambda: self.is_settled and self._follow_in_step, "the cluster is whole again")

    @property
    def _follow_in_step(self) -> bool:
        """Tell whether all but the masters follow one: until then there is nobody to take a master's place."""
        return sum(map(_is_in_step, self.nodes)) == len(self.nodes) - MASTERS

    def _node(self, port: int) -> ValkeyServer:
        return next(node for node in self.nodes if node.port == port)


def start_cluster(
    into: list[ValkeyServer], port: int | None, directory: Path, config: Mapping[str, str], replicas: int
) -> ValkeyCluster:
    """Start the nodes, noting each in `into`, and return when every one of them sees the whole cluster."""
    for number in range(MASTERS * (1 + replicas)):
        at = port + number if port else None
        into.append(start(at, directory / str(number), {**CONFIG, **config}))
    masters, others = into[:MASTERS], into[MASTERS:]
    for number, master in enumerate(masters):
        master.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        first, last = number * SLOTS // MASTERS, (number + 1) * SLOTS // MASTERS
        master.command("CLUSTER", "ADDSLOTS", *range(first, last))
    for node in into[1:]:
        node.command("CLUSTER", "MEET", HOST, into[0].port, into[0].port + BUS)
    cluster = ValkeyCluster(into)
    wait_until(lambda: all(_knows(node, len(into)) for node in into), "the nodes know each other")
    for number, replica in enumerate(others):
        name = masters[number % MASTERS].command("CLUSTER", "MYID")
        assert isinstance(name, str)
        wait_until(partial(_follows, replica, name), "a replica has found its master")
    wait_until(lambda: cluster.is_settled and all(map(_is_in_step, others)), "the cluster is whole")
    return cluster


def _knows(node: ValkeyServer, count: int) -> bool:
    return int(node.facts("cluster info")["cluster_known_nodes"]) == count


def _follows(replica: ValkeyServer, master: str) -> bool:
    try:
        return replica.command("CLUSTER", "REPLICATE", master) == "OK"
    except CommandRefused:
        return False  # it has not heard of this one yet


def _is_in_step(replica: ValkeyServer) -> bool:
    return replica.facts("replication").get("master_link_status") == "up"
