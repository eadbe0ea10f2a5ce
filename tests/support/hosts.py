"""Hosts on one machine: each a network namespace on a bridge and a disk of its own. Cables are cut, power is lost.

Root only. The bridge is in a namespace of its own, so no rule of the machine's firewall meets its frames.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Self

from support.waiting import until

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_NOWHERE = "02:00:00:00:00:01"  # an Ethernet address that nobody has: frames to it arrive nowhere
_IMAGE_BYTES = 96 * 1024 * 1024
_FIRST_HOST = 10
_REPAIRED = 1  # what e2fsck ends with then


def missing() -> str | None:
    """Why this machine cannot do it; None when it can."""
    if os.geteuid() != 0:
        return "network namespaces and loop devices need root"
    tools = [
        name for name in ("ip", "nsenter", "mkfs.ext4", "losetup", "mount", "umount") if shutil.which(name) is None
    ]
    if tools:
        return f"not installed: {', '.join(tools)} (apt-get install -y iproute2 e2fsprogs mount)"
    if not Path("/dev/loop-control").exists():
        return "no loop devices"
    done = subprocess.run(["ip", "netns", "add", _name("try")], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespaces: {done.stderr.strip()}"
    run("ip", "netns", "delete", _name("try"))
    return None


def missing_for_disks() -> str | None:
    """Why this machine has no disks of a test's own."""
    if os.geteuid() != 0:
        return "loop devices need root"
    if any(shutil.which(name) is None for name in ("mkfs.ext4", "losetup", "mount")):
        return "not installed: mkfs.ext4, losetup or mount (apt-get install -y e2fsprogs mount)"
    return None if Path("/dev/loop-control").exists() else "no loop devices"


def run(*command: str) -> str:
    """What a program prints; what it said is in the error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def _name(what: str | int) -> str:
    return f"t{os.getpid()}-{what}"  # an interface's name has 15 characters at most


class Network:
    """`count` hosts and this process's own namespace, all on one bridge."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._subnet = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"

    @property
    def here(self) -> str:
        """The address of this process's side."""
        return f"{self._subnet}.1"

    def address(self, host: int) -> str:
        """The address of a host."""
        return f"{self._subnet}.{_FIRST_HOST + host}"

    def prefix(self, host: int) -> list[str]:
        """What runs a command on the host; unlike `ip netns exec` it keeps no other host's disk mounted."""
        return ["nsenter", f"--net=/run/netns/{_name(host)}"]

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        switch = _name("sw")
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "br0", "up")
        cable = ("type", "veth", "peer", "name", "p-here", "netns", switch)
        run("ip", "link", "add", _name("v"), *cable)
        run("ip", "address", "add", f"{self.here}/24", "dev", _name("v"))
        run("ip", "link", "set", _name("v"), "up")
        self._plug("p-here")
        for host in range(self.count):
            namespace = _name(host)
            run("ip", "netns", "add", namespace)
            cable = ("type", "veth", "peer", "name", f"p{host}", "netns", switch)
            run("ip", "-n", namespace, "link", "add", "eth0", *cable)
            run("ip", "-n", namespace, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                run("ip", "-n", namespace, "link", "set", link, "up")
            self._plug(f"p{host}")

    def _plug(self, port: str) -> None:
        run("ip", "-n", _name("sw"), "link", "set", port, "master", "br0")
        run("ip", "-n", _name("sw"), "link", "set", port, "up")

    def __exit__(self, *_: object) -> None:
        for name in (*range(self.count), "sw"):
            subprocess.run(["ip", "netns", "delete", _name(name)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", _name("v")], capture_output=True, check=False)

    # -- cables ---------------------------------------------------------------------------------------------------

    def cut(self, host: int) -> None:
        """Nothing from or to the host arrives."""
        run("ip", "-n", _name("sw"), "link", "set", f"p{host}", "down")

    def join(self, host: int) -> None:
        """The cable is whole again."""
        run("ip", "-n", _name("sw"), "link", "set", f"p{host}", "up")

    def mute(self, host: int) -> None:
        """The host hears everybody and is heard by nobody."""
        for address in (self.here, *(self.address(other) for other in range(self.count) if other != host)):
            self._misdirect(host, address)

    def deafen(self, host: int) -> None:
        """The host is heard by everybody and hears nobody."""
        for other in (None, *(n for n in range(self.count) if n != host)):
            self._misdirect(other, self.address(host))

    def part(self, host: int, other: int) -> None:
        """These two do not hear each other; both hear everybody else."""
        self._misdirect(host, self.address(other))
        self._misdirect(other, self.address(host))

    def _misdirect(self, host: int | None, address: str) -> None:
        to = ("neighbour", "replace", address, "lladdr", _NOWHERE, "nud", "permanent")
        if host is None:
            run("ip", *to, "dev", _name("v"))
        else:
            run("ip", "-n", _name(host), *to, "dev", "eth0")

    def heal(self) -> None:
        """Everybody hears everybody."""
        for host in range(self.count):
            self.join(host)
            run("ip", "-n", _name(host), "neighbour", "flush", "dev", "eth0", "nud", "permanent")
        run("ip", "neighbour", "flush", "dev", _name("v"), "nud", "permanent")


class Disk:
    """An ext4 file system in a file, mounted at `path`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._image = folder / f"{name}.img"
        self.path = folder / name

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.path)], capture_output=True, check=False)
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        """On a loop device of its own: `mount -o loop` would take the last one again while anything has that mounted.

        A container or any other mount namespace that began meanwhile has a copy of the mount, and with it the file
        system that was shut down.
        """
        device = run("losetup", "--find", "--show", str(self._image)).strip()
        try:
            run("mount", "-o", "errors=remount-ro", device, str(self.path))
        finally:
            run("losetup", "--detach", device)  # by the kernel, as soon as nothing has it mounted

    def turn_read_only(self) -> None:
        """What the kernel does when it finds the file system damaged: every write and sync fails from now on."""
        device = os.stat(self.path).st_dev
        block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        Path(f"/sys/fs/ext4/{block}/trigger_fs_error").write_text("for a test")

    def repair(self) -> None:
        """Checks and mounts it again; nobody may have a file open."""
        until(self._unmount, f"umount of {self.path}")
        checked = subprocess.run(["e2fsck", "-f", "-p", str(self._image)], capture_output=True, text=True, check=False)
        if checked.returncode > _REPAIRED:
            raise OSError(f"e2fsck: {checked.stdout}{checked.stderr}")
        self._mount()

    def lose_power(self) -> None:
        """Of what was written only what was synced is there afterwards; nobody may have a file open."""
        self.cut_off()
        self.return_power()

    def cut_off(self) -> None:
        """From now on nothing reaches the disk: every call fails with EIO. Files may be open."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def return_power(self) -> None:
        """Mounts the disk again, as the machine's next start does; nobody may have a file of before open.

        The kernel lets go of a killed process's files after its end: until then the disk is busy.
        """
        until(self._unmount, f"umount of {self.path}")
        self._mount()

    def _unmount(self) -> bool:
        return subprocess.run(["umount", str(self.path)], capture_output=True, check=False).returncode == 0
