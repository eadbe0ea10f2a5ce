"""Raw lines to the one schema. Pure DataFrame functions: nothing is read or written, and no row is left out."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tailrace_spark.events import always
from tailrace_spark.logs.formats import CUT, FORMATS, PARTS, QUOTED
from tailrace_spark.logs.schema import LOG, SEVERITIES

# Words of other loggers for SEVERITIES; numbers are pino's and bunyan's.
WORDS = {
    **{word: word for word in SEVERITIES},
    **dict.fromkeys(("panic", "emergency"), "emerg"),
    **dict.fromkeys(("fatal", "critical", "60"), "crit"),
    **dict.fromkeys(("err", "severe", "failure", "50"), "error"),
    **dict.fromkeys(("warn", "40"), "warning"),
    **dict.fromkeys(("information", "log", "30"), "info"),
    **dict.fromkeys(("trace", "fine", "verbose", "20", "10"), "debug"),
    **{str(number): word for number, word in enumerate(SEVERITIES)},
}
GUESS = r"(?i)\b(emerg|panic|alert|crit|critical|fatal|error|warn|warning|notice|info|debug)\b"
# Names that JSON loggers give a thing, the first that is there counts; journald's are in capitals.
TIME = ("timestamp", "@timestamp", "time", "ts", "date", "__REALTIME_TIMESTAMP")
MESSAGE = ("message", "msg", "log", "MESSAGE")
SEVERITY = ("severity", "level", "lvl", "log.level", "PRIORITY")
HOST = ("host", "hostname", "_HOSTNAME")
SERVICE = ("service", "app", "logger", "name", "SYSLOG_IDENTIFIER", "_COMM")
TAKEN = (*TIME, *MESSAGE, *SEVERITY, *HOST, *SERVICE)
LONGEST = 262_144  # characters; a longer message is cut there and says so in fields
EARLY = "1 day"  # a line may be this much ahead of its arrival: clocks differ, zones are mistaken


def parse(records: DataFrame) -> DataFrame:
    """Records as the connector gives them, with the columns of LOG and `malformed`: why it is no log line, or null."""
    told = tell(records)
    return normal(apart(told)).select(
        *(F.col(field.name) for field in LOG.fields), "malformed", "key", "value", "headers", "arrived"
    )


def lines(parsed: DataFrame) -> DataFrame:
    """The log lines, in the columns of LOG."""
    return parsed.where(F.col("malformed").isNull()).select(*(field.name for field in LOG.fields))


def malformed(parsed: DataFrame) -> DataFrame:
    """The others, as records with the reason: (topic, partition, offset, key, value, headers, timestamp, reason)."""
    return parsed.where(F.col("malformed").isNotNull()).select(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        F.col("arrived").alias("timestamp"),
        F.col("malformed").alias("reason"),
    )


def tell(records: DataFrame) -> DataFrame:
    """Adds `text` (null where it is not UTF-8), `format`, and `arrived` for the record's own timestamp."""
    text = F.when(F.is_valid_utf8(F.col("value").cast("string")), F.col("value").cast("string"))
    clean = F.rtrim(F.translate(text, CUT + "\x00", " "))
    told = records.withColumnRenamed("timestamp", "arrived").withColumn("text", clean)
    if "headers" not in records.columns:
        told = told.withColumn("headers", F.lit(None).cast("array<struct<key:string,value:binary>>"))
    name = F.when(F.col("text").startswith("{"), "json")
    for each in FORMATS:
        name = name.when(F.col("text").rlike(each.begins), each.name)
    return told.withColumn("told", name.otherwise("text"))


def apart(told: DataFrame) -> DataFrame:
    """Adds `parts` (an array of PARTS and what else the format has; null where it does not match) and `json`."""
    cut = F.lit(None).cast("array<string>")
    for each in FORMATS:
        template = CUT.join((*each.template, *each.more))
        taken = F.split(F.regexp_replace("text", each.pattern, template), CUT)
        cut = F.when(F.col("told") == each.name, taken).otherwise(cut)
    json = F.when(F.col("told") == "json", F.from_json("text", "map<string,string>"))
    return (
        told.withColumn("cut", cut)
        .withColumn("json", json)
        .withColumn("parts", F.when(F.size("cut") >= len(PARTS), F.col("cut")))
    )


def normal(taken: DataFrame) -> DataFrame:
    """Adds the columns of LOG and `malformed`."""
    stage = (
        taken.withColumn("said", said())
        .withColumn("happened", happened())
        .withColumn("message", message())
        .withColumn("fields", fields())
    )
    stage = stage.withColumn("malformed", why_malformed())
    return (
        stage.withColumn("timestamp", F.coalesce("happened", "arrived"))
        .withColumn("hour", F.date_format("timestamp", "yyyy-MM-dd-HH"))
        .withColumn("severity", severity())
        .withColumn("host", present(F.coalesce(part("host"), named(HOST))))
        .withColumn("service", present(F.coalesce(part("service"), named(SERVICE))))
        .withColumn("format", F.when(F.col("told") == "syslog_file", "syslog").otherwise(F.col("told")))
        .withColumn("source", source())
    )


def part(name: str) -> Column:
    """One of PARTS, null for other formats."""
    return F.get("parts", F.lit(PARTS.index(name)))


def extra(number: int) -> Column:
    """What a format has beyond PARTS, from 0; null where it is not there."""
    return present(F.get("parts", F.lit(len(PARTS) + number)))


def present(text: Column) -> Column:
    """Null for syslog's and the access log's ways to say nothing."""
    return F.when((text != "") & (text != "-"), text)


def named(names: tuple[str, ...]) -> Column:
    """The first of these that the JSON object has."""
    return F.coalesce(*(F.try_element_at("json", F.lit(name)) for name in names))


def said() -> Column:
    """The time in the words of the line."""
    return F.coalesce(part("time"), named(TIME))


def happened() -> Column:
    """The time of the line; null where it says none or none that can be read."""
    time = F.col("said")
    iso = F.regexp_replace(F.regexp_replace(time, ",", "."), r" ?(UTC|Z)$", "Z")
    numeric = time.rlike(r"^\d{9,}(\.\d+)?$")
    return (
        F.when(F.col("told").isin("syslog", "syslog_file") & ~time.rlike(r"^\d"), without_year(time))
        .when(F.col("told") == "access", F.try_to_timestamp(time, F.lit("dd/MMM/yyyy:HH:mm:ss Z")))
        .when(numeric, of_number(time))
        .otherwise(F.try_to_timestamp(iso))
    )


def of_number(time: Column) -> Column:
    """Seconds, milliseconds or microseconds since 1970, told by the number of digits."""
    digits = F.length(F.regexp_replace(time, r"\..*$", ""))
    scale = F.when(digits >= 15, 1.0).when(digits >= 12, 1e3).otherwise(1e6)
    micros = (time.try_cast("double") * scale).try_cast("long")
    return F.timestamp_micros(micros)


def without_year(time: Column) -> Column:
    """RFC 3164 tells no year: it is the latest that does not put the line after its arrival (plus EARLY)."""

    def in_year(year: Column) -> Column:
        spelled = F.concat_ws(" ", year.cast("string"), F.regexp_replace(time, " +", " "))
        return F.try_to_timestamp(spelled, F.lit("yyyy MMM d HH:mm:ss"))

    year, latest = F.year("arrived"), F.col("arrived") + F.expr(f"interval {EARLY}")
    candidates = [in_year(year + step) for step in (1, 0, -1)]
    return F.coalesce(*(F.when(candidate <= latest, candidate) for candidate in candidates))


def message() -> Column:
    """What the line says; an access log's is its request, a JSON object without a message is its own."""
    text = F.coalesce(part("message"), named(MESSAGE), F.col("text"))
    access = F.concat_ws(" ", part("message"), extra(2))
    return F.left(F.when(F.col("told") == "access", access).otherwise(text), F.lit(LONGEST))


def fields() -> Column:
    """The rest, by name."""
    empty = F.create_map().cast("map<string,string>")
    access = named_extras("client", "user", "status", "bytes", "referer", "agent")
    request = F.split(part("message"), " ")
    access += [("method", F.get(request, F.lit(0))), ("path", F.get(request, F.lit(1)))]
    number = F.col("parts")[PARTS.index("severity")].try_cast("int")
    facility = ("facility", F.floor(number / 8).cast("string"))
    rest = F.map_filter("json", lambda key, value: ~key.isin(*TAKEN) & value.isNotNull())
    structured = F.map_concat(as_map([*named_extras("pid", "msgid"), facility]), structured_data(extra(2)))
    found = (
        F.when(F.col("told") == "json", rest)
        .when(F.col("told") == "access", as_map(access))
        .when(F.col("told") == "rfc5424", structured)
        .when(F.col("told").isin("syslog", "syslog_file"), as_map([*named_extras("pid"), facility]))
    )
    cut = F.length("text") > LONGEST
    whole = F.coalesce(found, empty)
    return F.when(cut, F.map_concat(whole, F.create_map(F.lit("cut"), F.lit("true")))).otherwise(whole)


def named_extras(*names: str) -> list[tuple[str, Column]]:
    """The parts beyond PARTS under their names."""
    return [(name, extra(number)) for number, name in enumerate(names)]


def as_map(pairs: list[tuple[str, Column]]) -> Column:
    """A map without the values that are null."""
    entries = [column for name, value in pairs for column in (F.lit(name), value)]
    return F.map_filter(F.create_map(*entries), lambda key, value: value.isNotNull())


def structured_data(text: Column) -> Column:
    """RFC 5424's [id key="value" ...] as a map; a key that comes twice has its last value."""
    pair = F.lit(rf'([^\s="\[\]]+)={QUOTED}')
    keys, values = F.regexp_extract_all(text, pair, F.lit(1)), F.regexp_extract_all(text, pair, F.lit(2))
    plain = F.transform(values, lambda value: F.regexp_replace(value, r'\\(["\\\]])', "$1"))
    return F.coalesce(F.map_from_entries(F.arrays_zip(keys, plain)), F.create_map().cast("map<string,string>"))


def severity() -> Column:
    """One of SEVERITIES: what the line says, else its status, else the first word that names one, else info."""
    words = F.create_map(*(F.lit(word) for pair in WORDS.items() for word in pair))
    number = F.col("parts")[PARTS.index("severity")].try_cast("int")
    by_number = F.try_element_at(F.array(*map(F.lit, SEVERITIES)), (number % 8 + 1).cast("int"))
    status = extra(2)
    by_status = F.when(status >= "500", "error").when(status >= "400", "warning").otherwise("info")
    guess = F.try_element_at(words, F.lower(F.regexp_extract("message", GUESS, 1)))
    told = F.try_element_at(words, F.lower(named(SEVERITY)))
    return F.coalesce(F.when(F.col("told") == "access", by_status), by_number, told, guess, F.lit("info"))


def source() -> Column:
    """Who sent it, in letters that are safe in a path."""
    header = F.filter("headers", lambda each: each.key == "source")
    given = F.coalesce(F.get(header, F.lit(0)).value.cast("string"), F.col("key").cast("string"))
    safe = F.regexp_replace(F.left(given, F.lit(100)), r"[^A-Za-z0-9._-]+", "_")
    trimmed = F.regexp_replace(safe, r"^[._]+|_+$", "")
    return F.coalesce(F.when(trimmed != "", trimmed), F.col("format"))


def why_malformed() -> Column:
    """The first reason that holds; null for a log line."""
    strict = [each.name for each in FORMATS if each.strict]
    timed = [*strict, "json"]
    late = F.col("arrived") + F.expr(f"interval {EARLY}")
    reasons = (
        (F.col("value").isNull() | (F.length("value") == 0), "empty"),
        (F.col("text").isNull(), "not UTF-8"),
        (F.trim("text") == "", "empty"),
        ((F.col("told") == "json") & F.col("json").isNull(), "not JSON"),
        (F.col("told").isin(*strict) & F.col("parts").isNull(), "does not match its format"),
        (F.col("told").isin(*timed) & present(F.col("said")).isNotNull() & F.col("happened").isNull(), "no such time"),
        (F.col("happened") > late, "from the future"),
    )
    return always(reduce(lambda whole, each: whole.when(*each), reasons[1:], F.when(*reasons[0])))
