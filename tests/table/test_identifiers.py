"""Fresh row names."""

import uuid

from dpwgan.table.codecs import FreshIdentifiers
from dpwgan.table.schema import IdentifierColumn


def test_numbers_count_on_when_chunks_follow_each_other():
    identifiers = FreshIdentifiers(IdentifierColumn(name="id", start=100))
    assert identifiers.make(first_record=0, records=2).to_list() == ["100", "101"]
    assert identifiers.make(first_record=2, records=2).to_list() == ["102", "103"]
    assert identifiers.make(first_record=4, records=0).to_list() == []


def test_names_are_distinct_random_uuids_when_no_start_is_given():
    identifiers = FreshIdentifiers(IdentifierColumn(name="id"))
    names = [
        *identifiers.make(first_record=0, records=500),
        *identifiers.make(first_record=0, records=500),
    ]
    assert len(set(names)) == 1000
    for name in names:
        parsed = uuid.UUID(name)
        assert str(parsed) == name
        assert parsed.version == 4
        assert parsed.variant == uuid.RFC_4122
