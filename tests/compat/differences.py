"""What is known to differ from Apache Kafka 4.4.0, with the reason; docs/compatibility.md lists it."""

from typing import NamedTuple


class Difference(NamedTuple):
    """One row of the page."""

    what: str
    kafka: str
    tailrace: str
    why: str


DIFFERENT_CONFIGS = {
    "min.insync.replicas",
    "queued.max.request.bytes",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}

DIFFERENCES = (
    Difference(
        "the source of `min.insync.replicas`",
        "DYNAMIC_DEFAULT_BROKER_CONFIG: a new cluster writes a default of 1 for all brokers",
        "DEFAULT_CONFIG",
        "Kafka does so for its eligible leader replicas (KIP-966), which have no meaning with one replica",
    ),
    Difference(
        "error messages",
        "often none, or NONE on success",
        "a sentence in most refusals",
        "the code is the protocol, the sentence is for people; where Kafka has one, Tailrace has one",
    ),
    Difference(
        "Metadata after a broker's death",
        "names it no more once it is fenced",
        "names it for ten more seconds; partitions, DescribeCluster and DescribeTopicPartitions tell at once",
        "its port at the gateway is open and answers; librdkafka loses up to a second over a node that vanishes",
    ),
    Difference(
        "Metadata v12 and later of a topic without a name and without an id",
        "UNKNOWN_SERVER_ERROR for the whole request",
        "INVALID_REQUEST, as both answer to v10 and v11",
        "the client's mistake is not the broker's error",
    ),
    Difference(
        "broker loggers (KIP-412)",
        "one logger for each class",
        "root, tailrace, tailrace.broker and those of its libraries; DEBUG shows what there is below INFO",
        "the lines of one role have one logger; other roles take --log-level when they start",
    ),
    Difference(
        "DescribeQuorum, and ids of controllers",
        "one number space for controllers and brokers; a node that is both is a voter only",
        "controllers are the voters and brokers the observers; both are counted from 0",
        "controllers and brokers are other processes; a broker's offset is that of its last heartbeat",
    ),
    Difference(
        "`advertised.listeners`, described",
        "what the broker's file says",
        "the address of the broker's node at the gateway, by the listener of the client that asks",
        "clients know the gateway only",
    ),
    Difference(
        "`listeners`",
        "of each broker",
        "of gateways, whose port + n is node n; without it one listener by the keys `gateway.*`",
        "clients know the gateway only",
    ),
    Difference(
        "no broker is unfenced: the cluster starts, or its only broker is away",
        "the connection is refused",
        "the connection is taken; requests for metadata and to the controller wait until a broker is unfenced, for 25 "
        "seconds at most, and then the connection is closed",
        "a client that is refused waits for its own backoff, also when the cluster is ready already",
    ),
    Difference(
        "features",
        "kraft.version, share.version, streams.version, and all levels of metadata.version up to 4.4",
        "group.version and transaction.version as Kafka; security.version; metadata.version stays at 4.0-IV3; "
        "eligible.leader.replicas.version stays at 1; what UpdateFeatures names twice is answered once, and the last "
        "level counts",
        "a feature that is not built has no levels, and eligible leader replicas are always kept",
    ),
    Difference(
        "the replicas of `__transaction_state`",
        "transaction.state.log.replication.factor; without so many brokers there are no transactions",
        "as many as there are live brokers, and more when brokers join, up to that number",
        "transactions work on one broker, as groups do",
    ),
    Difference(
        "ListTransactions while a coordinator is away",
        "what its node coordinates is not asked for",
        "COORDINATOR_LOAD_IN_PROGRESS, which clients repeat, from the nodes that lead its partitions",
        "coordinators are other processes than brokers",
    ),
    Difference(
        "AddPartitionsToTxn v4-5 of a client",
        "served where there is no authorizer; else it needs CLUSTER_ACTION",
        "CLUSTER_AUTHORIZATION_FAILED",
        "brokers alone send it, and they ask the coordinator itself",
    ),
    Difference(
        "WriteTxnMarkers from a client",
        "any markers, of any coordinator epoch",
        "the abort of one open transaction on one partition, with the epochs that DescribeProducers names, and not "
        "once its coordinator has decided the outcome: INVALID_TXN_STATE",
        "a marker that no coordinator decided would undo an acknowledged commit",
    ),
    Difference(
        "a request about a transaction while the markers of the one before are written",
        "CONCURRENT_TRANSACTIONS",
        "the same, but only after 100 ms: so long the request waits for the markers, and is served if they come",
        "a client waits longer before it asks again than the markers take",
    ),
    Difference(
        "EndTxn v5 that commits what the coordinator has aborted by itself, after its timeout for instance",
        "INVALID_TXN_STATE up to 4.4, which ends the producer; PRODUCER_FENCED later (KAFKA-20785)",
        "PRODUCER_FENCED",
        "an application begins again with a new producer",
    ),
    Difference(
        "a classic member of a consumer group (KIP-848), with no member of the consumer protocol beside it",
        "is not assigned what others leave, nor new partitions, until it joins by itself",
        "its heartbeats have the coordinator assign",
        "with `group.consumer.migration.policy=upgrade` it stays such a group: partitions would have no reader",
    ),
    Difference(
        "what members own when a group is upgraded or downgraded",
        "the last assignment of the classic group, the target assignment of the consumer group",
        "what members own, and what they are to give up",
        "a partition has no second reader before its first one knows that it is to give it up",
    ),
    Difference(
        "a new regular expression of a subscription (KIP-848)",
        "looked up at once, or up to ten seconds after the group's last one",
        "looked up at once",
        "a member does not wait longer for its topics than they take to be found",
    ),
    Difference(
        "the hash of a consumer group's topics in `__consumer_offsets` (KIP-1101)",
        "XXH3 of names, ids, partitions and racks",
        "BLAKE2b of ids, partitions and racks",
        "a group that moves from one to the other is assigned once more, and its members keep their partitions",
    ),
    Difference(
        "share groups, streams groups, delegation tokens, telemetry",
        "served",
        "not in ApiVersions",
        "an API that is not built is not advertised",
    ),
    Difference(
        "an ACL, or a filter of ACLs, with an UNKNOWN (0) type, pattern, operation or permission",
        "the connection is closed",
        "INVALID_REQUEST, as for the numbers of later versions; DescribeAcls finds none",
        "the refusal of one row keeps the connection",
    ),
    Difference(
        "an ACL with ANY or MATCH as its type, pattern, operation or permission",
        "UNKNOWN_SERVER_ERROR",
        "INVALID_REQUEST",
        "the client's mistake is not the broker's error",
    ),
    Difference(
        "ACLs on resources whose names begin with a star",
        "the ACLs of the wildcard are not looked at, deny or allow",
        "they count, as for every other name",
        "what is denied for all names is denied for each",
    ),
    Difference(
        "the names, principals and hosts of ACLs",
        "up to 32,767 bytes",
        "up to 512 bytes, without NUL; a cluster has at most 20,000 ACLs",
        "every role holds all of them, and PostgreSQL stores no NUL",
    ),
    Difference(
        "client quotas",
        "per broker; an idle client may exceed its rate for some 10 s",
        "over the whole cluster (`quota.scope=broker`: per broker); an idle client starts at its rate",
        "one rate for one client, however many brokers there are",
    ),
    Difference(
        "a request that the state of SASL does not take",
        "while a token is due, it is answered with ILLEGAL_SASL_STATE; then the connection is closed",
        "the connection is closed",
        "no request but those of SASL is decoded before a client is authenticated",
    ),
    Difference(
        "a user that does not exist, by SCRAM",
        "refused at its first message",
        "refused at its last one, after a challenge as any user gets it",
        "neither answers nor times say which names exist",
    ),
    Difference(
        "`request_percentage`",
        "of the time of a broker's network and request threads; `throttle_time_ms` in every answer",
        "of one core's time that event loops of gateways and brokers take; the connection is not read, "
        "`throttle_time_ms` stays 0",
        "an event loop is what a gateway shares out; the time is known after the answer has left",
    ),
    Difference(
        "a throttle after controller mutations above the quota",
        "as long as the debt lasts",
        "at most `quota.max.throttle.ms` at once; the debt stays",
        "heartbeats on the same connection must arrive",
    ),
    Difference(
        "a quota for an IP address given as a host name",
        "the name is looked up",
        "INVALID_REQUEST, but for `localhost`",
        "the controller waits for no name server while others wait for it",
    ),
    Difference(
        "a client quota of less than a millionth of a byte a second",
        "taken",
        "INVALID_REQUEST",
        "no client can be held to it",
    ),
    Difference(
        "a timeout_ms of 0 or below in CreateTopics, DeleteTopics, ElectLeaders, AlterPartitionReassignments",
        "REQUEST_TIMED_OUT, and it is done all the same",
        "it is done, and the answer says so",
        "the answer is there in time",
    ),
    Difference(
        "a negative array count, a client id of negative length, text that is not UTF-8",
        "read as something harmless",
        "the connection is closed",
        "what is not the protocol is refused in one place, the decoder",
    ),
    Difference(
        "the count of records that a batch claims",
        "the records are counted",
        "as many as its bytes can be at the best that its codec can do, and not more than 64 MiB of the smallest",
        "counting takes decompressing every batch",
    ),
    Difference(
        "a batch whose CRC is right but whose records are nonsense or of an unknown compression",
        "INVALID_RECORD, UNKNOWN_SERVER_ERROR where it cannot be decompressed",
        "stored as it came, its largest timestamp believed; UNSUPPORTED_COMPRESSION_TYPE for an unknown compression",
        "batches are opaque to the broker, which is what makes it fast; every client checks the records it reads",
    ),
    Difference(
        "a batch that cannot be decompressed (Java cannot if lz4's blocks depend on each other), or whose offsets "
        "do not count up, where the topic asks for a look: compacted, or of another compression.type",
        "UNKNOWN_SERVER_ERROR; gzip and lz4 may have anything behind their end, snappy up to 3 bytes; "
        "offsets are counted again if the batch is compressed again",
        "INVALID_RECORD, and MESSAGE_TOO_LARGE for more than 64 MiB; nothing may be behind the end",
        "final for producers alike (Java's repeats CORRUPT_MESSAGE); but these say whose fault it is",
    ),
    Difference(
        "`segment.index.bytes` of 4 to 11, which is less than an entry",
        "the topic is created, and its partitions get no log (`Invalid max index size` in the log)",
        "as with 12: every batch is a segment of its own",
        "what can be set can be used",
    ),
    Difference(
        "`queued.max.request.bytes` by default",
        "-1: no bound",
        "268435456, of each role",
        "without a bound a hundred clients with half a request each take all memory",
    ),
    Difference(
        "a slow request while others wait for `queued.max.request.bytes`",
        "keeps its memory, the others wait",
        "its connection is closed where it would not be whole within 30 s",
        "else a few clients that send nothing more hold up all others",
    ),
    Difference(
        "`socket.receive.buffer.bytes` by default",
        "102400",
        "-1: the system's",
        "a read then brings several large requests at once: a fifth less CPU for Produce of 128 KiB",
    ),
    Difference(
        "`socket.send.buffer.bytes` by default",
        "102400",
        "-1: the system's",
        "a large answer then waits less often until there is room for more of it",
    ),
    Difference(
        "a produced batch that claims LogAppendTime",
        "accepted",
        "INVALID_TIMESTAMP",
        "only the topic's configuration decides which time counts",
    ),
    Difference(
        "the largest timestamp after DeleteRecords",
        "that of a deleted record, at an offset below the log's start",
        "that of the records that are left",
        "a client that asks wants to read there",
    ),
    Difference(
        "an idempotent producer's batch whose predecessor was refused (no leader yet, too few replicas, a "
        "full disk) and that came right behind it on the same connection, or that skips some in the first "
        "minute of a leadership or as the first of its producer in it",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "NOT_LEADER_OR_FOLLOWER, once; the next time OUT_OF_ORDER_SEQUENCE_NUMBER",
        "at the former librdkafka begins a new producer epoch for all its partitions, and sends again what "
        "others have and have not acknowledged: the log has it twice, with Kafka too. At the latter every "
        "client sends again from the first",
    ),
    Difference(
        "a group, resource, partition or member that DescribeGroups, OffsetFetch, OffsetCommit, OffsetDelete,"
        " LeaveGroup, FindCoordinator, DescribeConfigs, DescribeProducers, OffsetForLeaderEpoch, ElectLeaders"
        " or a reassignment names twice",
        "answered twice",
        "answered once; partitions that two rows of a topic ask for are joined, and of two offsets for a "
        "partition the last counts",
        "no answer grows with what is said again",
    ),
    Difference(
        "a request with more than 10,000 rows in one of its lists (20,000 of some APIs, see [limits](limits.md))",
        "answered",
        "INVALID_REQUEST; the connection is closed for Produce, for Fetch and above 20,000",
        "no request keeps the others waiting",
    ),
    Difference(
        "a `SubscribedTopicRegex` of more than 256 characters, or a member with the 101st different one of its group",
        "joins",
        "INVALID_REGULAR_EXPRESSION; GROUP_MAX_SIZE_REACHED ([limits](limits.md))",
        "RE2 needs a second for a long one, and no group keeps the others waiting",
    ),
    Difference(
        "a group id or transactional id of more than 1,024 bytes",
        "accepted up to 32,767 bytes",
        "INVALID_GROUP_ID or INVALID_REQUEST",
        "it stands in the record of each committed offset, and in every list",
    ),
    Difference(
        "a request to list or describe so much that the answer would have more than 64 MiB, except Metadata",
        "answered",
        "MESSAGE_TOO_LARGE for what it has no room for",
        "one answer must not take a role's memory",
    ),
    Difference(
        "OffsetCommit, OffsetDelete and LeaveGroup of more than 500 rows, DeleteGroups of a group with more "
        "than 500 offsets",
        "one write",
        "some hundred rows at a time, each committed before the next: after a crash in the middle the first "
        "ones are done",
        "other groups are served in between",
    ),
    Difference(
        "bytes after the last field of a request",
        "ignored",
        "the connection is closed, except for Metadata v9 and later",
        "librdkafka's Metadata request for all topics is three bytes too long; nothing else needs it",
    ),
)
