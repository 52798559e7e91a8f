"""What kinds of file systems there are, as far as a job that may move to another node is concerned. Pure."""

from enum import StrEnum


class Reach(StrEnum):
    """From where else a file system is seen."""

    MEMORY = "in the memory of this node"
    NODE = "on a disk of this node"
    SHARED = "shared"
    UNKNOWN = "unknown"


_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NODE = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "overlay", "squashfs", "vfat"}
)
_SHARED = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "lustre",
            "gpfs",
            "beegfs",
            "ceph",
            "cifs",
            "smb3",
            "9p",
            "virtiofs",
            "afs",
            "pvfs2",
            "orangefs",
        ),
        *("panfs", "wekafs", "glusterfs", "ocfs2", "gfs2", "dvs", "ime"),
    }
)


def reach_of(kind: str) -> Reach:
    """By the name that the kernel has for a file system. FUSE can be either, and is not known.

    >>> reach_of("tmpfs").name, reach_of("ext4").name, reach_of("lustre").name, reach_of("fuse.sshfs").name
    ('MEMORY', 'NODE', 'SHARED', 'UNKNOWN')
    """
    if kind in _MEMORY:
        return Reach.MEMORY
    if kind in _NODE:
        return Reach.NODE
    return Reach.SHARED if kind in _SHARED else Reach.UNKNOWN
