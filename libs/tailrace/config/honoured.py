"""The keys that have an effect, by the module that obeys them.

A key stands once, at the module where it takes effect; others may read it, too. A broker key that topics follow
(`log.retention.ms`) stands nowhere: where nobody reads it for itself, its effect is that of the topic key
(`INHERITED`). Every other key is accepted and described, and is said to have no effect when it is set. A unit test
holds the table against what the modules read, both ways.
"""

from __future__ import annotations

from collections.abc import Mapping

INHERITED = "tailrace.config.topic"

BROKER_KEYS = {
    "tailrace.runtime.config_providers": ("config.providers",),
    "tailrace.runtime.insecure_listeners": ("allow.insecure.listeners", "health.open"),
    "tailrace.net.authorization.opening": (
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "super.users",
    ),
    "tailrace.net.authentication.secret_file": ("internal.secret.file",),
    "tailrace.net.members.internal": ("internal.advertised.host", "internal.listen"),
    "tailrace.net.metadata.follower": ("controller.quorum.bootstrap.servers",),
    "tailrace.runtime.process": ("data.dir", "node.id", "run.dir"),
    "tailrace.runtime.role_instance": ("health.listen", "health.port"),
    "tailrace.net.limits.connections_per_ip": ("max.connections.per.ip", "max.connections.per.ip.overrides"),
    "tailrace.net.listeners.listener": (
        "admin.security.protocol",
        "advertised.listeners",
        "controller.listener.names",
        "gateway.advertised.host",
        "gateway.advertised.port",
        "gateway.listen",
        "gateway.port",
        "gateway.security.protocol",
        "listener.security.protocol.map",
        "listeners",
        "ssl.principal.mapping.rules",
    ),
    "tailrace.net.tls.settings": (
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ),
    "tailrace.net.sasl.settings": (
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.server.max.receive.size",
    ),
    "tailrace.net.quotas.opening": (
        "quota.max.entries",
        "quota.max.throttle.ms",
        "quota.scope",
        "quota.unavailable",
    ),
    "tailrace_broker.app": (
        "broker.fast.path",
        "broker.heartbeat.interval.ms",
        "broker.rack",
        "controlled.shutdown.enable",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "log.cold.read.buffer.bytes",
        "max.incremental.fetch.session.cache.slots",
        "num.recovery.threads.per.data.dir",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "replica.lag.time.max.ms",
        "request.timeout.ms",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
    ),
    "tailrace_broker.housekeeping": ("log.retention.check.interval.ms",),
    "tailrace_broker.hints": ("replica.selector.class",),
    "tailrace_broker.compaction.cleaner": (
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
    ),
    "tailrace_broker.directories.disk_pressure": ("log.dir.pressure.refuse.bytes", "log.dir.pressure.slow.bytes"),
    "tailrace_broker.directories.failure": ("log.dir.failure.timeout.ms",),
    "tailrace_broker.directories.opening": ("log.dirs", "producer.id.expiration.ms"),
    "tailrace_broker.directories.moves": ("num.replica.alter.log.dirs.threads",),
    "tailrace_broker.fetch.plain": ("fetch.max.bytes",),
    "tailrace_broker.produce.verification": (
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "transaction.partition.verification.enable",
    ),
    "tailrace_broker.replication.fetcher": (
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
    ),
    "tailrace_controller.app": (
        "broker.session.timeout.ms",
        "controller.quorum.election.timeout.ms",
        "metadata.schema.upgrade",
    ),
    "tailrace_controller.commands.accept_restored": ("metadata.url",),
    "tailrace_controller.decide.create_topics": ("default.replication.factor", "num.partitions"),
    "tailrace_controller.decide.delete_topics": ("delete.topic.enable",),
    "tailrace_controller.decide.internal_topics": (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "share.coordinator.state.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
    ),
    "tailrace_controller.decide.topic_rules": ("min.insync.replicas", "unclean.leader.election.enable"),
    "tailrace_controller.mutations": ("controller.quota.window.num", "controller.quota.window.size.seconds"),
    "tailrace_controller.periodic": (
        "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
        "unclean.leader.election.interval.ms",
    ),
    "tailrace_coordinator.app": ("group.coordinator.rebalance.protocols", "offsets.commit.timeout.ms"),
    "tailrace_coordinator.groups.classic.join": (
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
    ),
    "tailrace_coordinator.groups.classic.rebalance": ("group.initial.rebalance.delay.ms",),
    "tailrace_coordinator.groups.consumer.config": (
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignor.offload.enable",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
    ),
    "tailrace_coordinator.groups.consumer.expressions": ("group.consumer.regex.refresh.interval.ms",),
    "tailrace_coordinator.groups.consumer.members": ("group.consumer.max.size",),
    "tailrace_coordinator.groups.consumer.validation": ("group.consumer.assignors",),
    "tailrace_coordinator.groups.config": (
        "group.consumer.migration.policy",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
    ),
    "tailrace_coordinator.groups.offsets": ("offset.metadata.max.bytes",),
    "tailrace_coordinator.shards.kind": ("message.max.bytes",),
    "tailrace_coordinator.transactions.config": (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transactional.id.expiration.ms",
    ),
    "tailrace_gateway.app": (
        "access.control.allow.methods",
        "access.control.allow.origin",
        "admin.allowed.hosts",
        "admin.port",
        "auto.create.topics.enable",
        "connections.max.idle.ms",
        "gateway.advertise",
        "gateway.handover",
        "max.connections",
        "queued.max.request.bytes",
    ),
    "tailrace_quota.app": ("quota.lease.ms", "quota.url"),
}

TOPIC_KEYS = {
    "tailrace.log.compaction.cleanable": (
        "cleanup.policy",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
    ),
    "tailrace.log.compaction.plan": ("delete.retention.ms",),
    "tailrace.log.flush": ("flush.messages", "flush.ms"),
    "tailrace.log.limits": (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "segment.bytes",
        "segment.jitter.ms",
        "segment.ms",
    ),
    "tailrace.log.segments": ("segment.index.bytes",),
    "tailrace.log.log": ("index.interval.bytes",),
    "tailrace.log.retention": ("file.delete.delay.ms", "retention.bytes", "retention.ms"),
    "tailrace.tables.topics": (
        "tailrace.table",
        "tailrace.table.commit.interval.ms",
        "tailrace.table.value.format",
        "tailrace.table.value.schema",
    ),
    "tailrace_broker.partitions.partition": (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
    ),
    "tailrace_controller.decide.topic_rules": ("unclean.leader.election.enable",),
}


GROUP_KEYS = {
    "tailrace_coordinator.groups.consumer.config": (
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
    ),
}


def obeyed_by(keys: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Key -> the module that obeys it."""
    return {key: module for module, of_module in keys.items() for key in of_module}
