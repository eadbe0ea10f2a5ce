"""What a follower does with its leader's answer: cut what the leader does not have, append, follow the marks. Pure.

KIP-101, KIP-279 and KIP-595: every fetch names the epoch of the follower's last record; a leader whose log has another
history there answers with the largest epoch it knows below and where that ended, and the follower cuts to where both
agree. It may take several rounds, one for each epoch that only the follower has.
"""

from __future__ import annotations

from tailrace.log.leader_epochs import LeaderEpochs

UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = -1


def diverges(leader: LeaderEpochs, log_end: int, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Leader's side: (epoch, its end offset here) if the follower's log has something else below fetch_offset.

    None also where the leader no longer knows that epoch: the offset then decides (it is below the log start).
    """
    if last_fetched_epoch == UNKNOWN_EPOCH:
        return None
    epoch, end_offset = leader.end_offset_for(last_fetched_epoch, log_end)
    if end_offset == UNKNOWN_OFFSET:
        return None
    return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < fetch_offset else None


def truncation_offset(epochs: LeaderEpochs, log_end: int, epoch: int, end_offset: int) -> int:
    """Follower's side: where to cut, given the leader's (epoch, end offset); KIP-279's case analysis."""
    if end_offset == UNKNOWN_OFFSET:
        return log_end
    if epoch == UNKNOWN_EPOCH:
        return min(end_offset, log_end)
    mine, my_end = epochs.end_offset_for(epoch, log_end)
    if my_end == UNKNOWN_OFFSET:
        return min(end_offset, log_end)
    if mine != epoch:  # an epoch the leader has and we have not: agree on the one before it first
        return min(my_end, log_end)
    return min(my_end, end_offset, log_end)
