"""A private master with replicas, and the sentinels that choose a new master when it dies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from laneway.testing.servers.endpoint import CommandRefused
from laneway.testing.servers.single import HOST, ValkeyServer, start, wait_until

SERVICE = "laneway"
QUORUM = 2

# Milliseconds. Servers since Redis 7 can be told to look more often than every second or ten. A replica whose master is
# down is asked how it is once a second, whatever they are told, and is chosen only if it has answered within the last
# five ping periods.
IN_A_HURRY = {"info-period": 200, "publish-period": 100, "ping-period": 250, "ask-period": 100}
# The last one is slower to see a death, so that it votes for another: three votes for three choose nobody.
DOWN_AFTER = (500, 500, 1500)
FAILOVER_TIMEOUT = 3_000


class ValkeySentinels:
    """A master, its replicas and three sentinels that watch over them. `url` names the sentinels and the service.

    `kill`, `stop` and `cont` go to the server itself: `group.master()`.
    """

    def __init__(self, servers: Sequence[ValkeyServer], sentinels: Sequence[ValkeyServer], service: str) -> None:
        self.servers, self.sentinels, self.service = tuple(servers), tuple(sentinels), service
        self.url = f"redis+sentinel://{','.join(f'{HOST}:{each.port}' for each in sentinels)}/{service}/0"

    def master(self) -> ValkeyServer:
        """Return the server that the first living sentinel takes for the master."""
        return self._named_by(next(sentinel for sentinel in self.sentinels if sentinel.alive))

    def fail_over(self) -> ValkeyServer:
        """Kill the master with -9, wait until all sentinels name the same new one, and return it."""
        old = self.master()
        old.kill()
        wait_until(lambda: self.is_settled and self.master() is not old, "the sentinels have chosen a new master")
        return self.master()

    @property
    def is_settled(self) -> bool:
        """Tell whether all living sentinels name the same server, and it is a master."""
        named = {self._named_by(sentinel) for sentinel in self.sentinels if sentinel.alive}
        if len(named) != 1:
            return False
        [master] = named
        return master.alive and master.facts("replication")["role"] == "master"

    def restart(self) -> None:
        """Start again what is dead, and wait until the sentinels agree and every other server follows the master."""
        for each in (*self.servers, *self.sentinels):
            if not each.alive:
                each.restart()
        wait_until(lambda: self.is_settled and self._all_follow(), "the servers follow their master again")

    def _all_follow(self) -> bool:
        master = self.master()
        return all(_follows(server, master) for server in self.servers if server is not master)

    def _named_by(self, sentinel: ValkeyServer) -> ValkeyServer:
        match sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service):
            case [_, str(port)]:
                return next(server for server in self.servers if server.port == int(port))
            case said:
                raise LookupError(f"a sentinel knows no {self.service}: {said!r}")


def start_sentinels(
    into: list[ValkeyServer], port: int | None, directory: Path, config: Mapping[str, str], replicas: int
) -> ValkeySentinels:
    """Start servers and sentinels, noting each in `into`; return when a fail-over would succeed."""

    def started(settings: Mapping[str, str], *arguments: str) -> ValkeyServer:
        number = len(into)
        into.append(start(port + number if port else None, directory / str(number), settings, *arguments))
        return into[-1]

    master = started(config)
    followers = [started({**config, "replicaof": f"{HOST} {master.port}"}) for _ in range(replicas)]
    sentinels = [started(_watching(master, down_after), "--sentinel") for down_after in DOWN_AFTER]
    for sentinel in sentinels:
        for name, period in IN_A_HURRY.items():
            with suppress(CommandRefused):
                sentinel.command("SENTINEL", "DEBUG", name, period)
    wait_until(lambda: all(_follows(each, master) for each in followers), "the replicas follow the master")
    wait_until(lambda: all(_knows_all(each, replicas) for each in sentinels), "the sentinels know each other")
    return ValkeySentinels((master, *followers), sentinels, SERVICE)


def _watching(master: ValkeyServer, down_after: int) -> dict[str, str]:
    return {
        f"sentinel monitor {SERVICE}": f"{HOST} {master.port} {QUORUM}",
        f"sentinel down-after-milliseconds {SERVICE}": str(down_after),
        f"sentinel failover-timeout {SERVICE}": str(FAILOVER_TIMEOUT),
    }


def _follows(server: ValkeyServer, master: ValkeyServer) -> bool:
    try:
        facts = server.facts("replication")
    except OSError:
        return False  # sentinels close all connections of a server that they tell whom to follow
    return facts.get("master_port") == str(master.port) and facts.get("master_link_status") == "up"


def _knows_all(sentinel: ValkeyServer, replicas: int) -> bool:
    told = sentinel.command("SENTINEL", "MASTER", SERVICE)
    assert isinstance(told, list)
    facts = dict(zip(told[::2], told[1::2], strict=True))
    return (facts["num-slaves"], facts["num-other-sentinels"]) == (str(replicas), str(len(DOWN_AFTER) - 1))
