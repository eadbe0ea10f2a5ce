"""What the tests share: targets to run against, a raw wire client, the outside tools."""
