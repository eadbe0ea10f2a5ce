"""The pictures of docs/replication.md show what was observed, at Apache Kafka and at Tailrace alike."""

from xml.etree import ElementTree

from support.story_pictures import main, pictures


def test_the_pictures_are_made_of_the_observed_answers() -> None:
    assert main(["--check"]) == 0


def test_every_picture_is_well_formed() -> None:
    for svg in pictures().values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
