"""The log directories: which replica lies where, moves between them, disks that fail or fill up (KIP-113, KIP-858)."""
