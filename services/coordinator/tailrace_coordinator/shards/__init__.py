"""The shards this coordinator owns: loaded from their partitions, served, fenced and unloaded, whatever they hold."""
