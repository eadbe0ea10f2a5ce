"""Item co-occurrence.

Two products are similar if those who bought the one bought the other: the cosine of their sets of buyers, damped so
that a pair few bought together does not beat one that many did.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tailrace_spark import events

PURCHASE = {"time": "timestamp", "user": "string", "product": "string"}
BASKET = 200  # newest products of a user that count: one who bought everything says nothing, and costs its square
DAMPING = 5.0


def parse(records: DataFrame) -> DataFrame:
    """Records with the fields of a purchase and `reason`."""
    return events.parse(records, PURCHASE, tuple(PURCHASE))


def baskets(purchases: DataFrame, most: int = BASKET) -> DataFrame:
    """(user, product) once each, the newest products of a user."""
    once = purchases.groupBy("user", "product").agg(F.max("time").alias("time"))
    newest = F.row_number().over(Window.partitionBy("user").orderBy(F.desc("time"), "product"))
    return once.withColumn("_place", newest).where(F.col("_place") <= most).select("user", "product")


def similar(owned: DataFrame, most: int = 20, least_together: int = 2) -> DataFrame:
    """(product, other, score), the `most` best others of each product, from (user, product)."""
    buyers = owned.groupBy("product").agg(F.count("*").alias("buyers"))
    left = owned.select("user", "product")
    right = owned.select("user", F.col("product").alias("other"))
    pairs = left.join(right, "user").where(F.col("product") != F.col("other"))
    together = pairs.groupBy("product", "other").agg(F.count("*").alias("together"))
    others = buyers.select(F.col("product").alias("other"), F.col("buyers").alias("other_buyers"))
    counted = together.where(F.col("together") >= least_together).join(buyers, "product").join(others, "other")
    cosine = F.col("together") / F.sqrt(F.col("buyers") * F.col("other_buyers"))
    scored = counted.select(
        "product", "other", (cosine * F.col("together") / (F.col("together") + DAMPING)).alias("score")
    )
    place = F.row_number().over(Window.partitionBy("product").orderBy(F.desc("score"), "other"))
    return scored.withColumn("_place", place).where(F.col("_place") <= most).drop("_place")


def suggest(owned: DataFrame, scores: DataFrame, most: int = 10) -> DataFrame:
    """(user, product, place): for each user what is most similar to all they have, without what they have."""
    summed = (
        owned.join(scores, "product")
        .groupBy("user", F.col("other").alias("product"))
        .agg(F.sum("score").alias("score"))
    )
    fresh = summed.join(owned, ["user", "product"], "left_anti")
    place = F.row_number().over(Window.partitionBy("user").orderBy(F.desc("score"), "product"))
    return fresh.withColumn("place", place).where(F.col("place") <= most).select("user", "product", "place")


def popular(owned: DataFrame, most: int = 10) -> DataFrame:
    """The baseline, as `suggest`: what most have bought, without what the user has."""
    bought = owned.groupBy("product").agg(F.count("*").alias("score"))
    fresh = owned.select("user").distinct().crossJoin(bought).join(owned, ["user", "product"], "left_anti")
    place = F.row_number().over(Window.partitionBy("user").orderBy(F.desc("score"), "product"))
    return fresh.withColumn("place", place).where(F.col("place") <= most).select("user", "product", "place")


def hit_rate(suggested: DataFrame, held_out: DataFrame) -> float:
    """The share of (user, product) held out that was suggested to the user."""
    total: int = held_out.count()
    found: int = held_out.join(suggested, ["user", "product"], "left_semi").count()
    return found / max(total, 1)


def rows(scores: DataFrame, before: DataFrame, topic: str) -> DataFrame:
    """For the sink: product -> JSON of its similar products; a tombstone for those that have none any more.

    `before` are the records of the topic as it is.
    """
    best_first = F.sort_array(F.collect_list(F.struct((-F.col("score")).alias("minus"), "other")))
    lists = scores.groupBy("product").agg(best_first.alias("similar"))
    value = F.to_json(
        F.struct(
            "product",
            F.transform(
                "similar", lambda each: F.struct(each.other.alias("product"), (-each.minus).alias("score"))
            ).alias("similar"),
        )
    )
    new = lists.select(F.encode("product", "UTF-8").alias("key"), F.encode(value, "UTF-8").alias("value"))
    gone = before.select("key").distinct().join(new, "key", "left_anti")
    every = new.unionByName(gone.withColumn("value", F.lit(None).cast("binary")))
    return every.select(F.lit(topic).alias("topic"), "key", "value")
