"""Codebooks: what is read from them, and what is refused."""

import pytest

from dpwgan.errors import SpecsError
from dpwgan.table.codebook import parse_codebook

TEXT = (
    "Description: an extract\n"
    "  Variable               Columns        Len    1940   \n"
    "  SEX                P  73              1      X \n"
    "\n"
    "Variable Availability Key:\n"
    "All Years X - available in this sample\n"
    "\n"
    " SEX\t\tSex\n"
    "1\t\tMale\n"
    "2\t\tFemale\n"
    "\n"
    " METRO\t\tMetropolitan status\n"
    "0\t\tNot identifiable\n"
    "\t\tIn metro area:\n"
    "02\t\t   In metro area, central city  \n"
    "02\t\tlisted again\n"
    "B3\t\tA code of letters\n"
    "\n"
    " RENT\t\tMonthly contract rent\n"
    "\n"
    " NOLABEL\t\t\n"
    "9999\t\t\n"
)


def test_codebook_lists_codes_with_labels_when_headings_stand_between():
    codebook = parse_codebook(TEXT.encode())
    assert tuple(codebook.labels) == ("SEX", "METRO", "RENT", "NOLABEL")
    assert codebook.codes("SEX") == ("1", "2")
    assert codebook.codes("METRO") == ("0", "02", "B3")
    assert codebook.labels["METRO"]["02"] == "In metro area, central city"
    assert codebook.labels["NOLABEL"] == {"9999": ""}


@pytest.mark.parametrize("change", ["bom", "utf-16", "crlf", "cr", "latin-1"])
def test_codebook_reads_the_same_codes_when_bytes_differ(change):
    content = {
        "bom": TEXT.encode("utf-8-sig"),
        "utf-16": TEXT.encode("utf-16"),
        "crlf": TEXT.replace("\n", "\r\n").encode(),
        "cr": TEXT.replace("\n", "\r").encode(),
        "latin-1": TEXT.replace("Male", "M\u00e2le").encode("latin-1"),
    }[change]
    codebook = parse_codebook(content)
    assert codebook.codes("METRO") == ("0", "02", "B3")
    assert codebook.labels["SEX"]["1"] == ("M\u00e2le" if change == "latin-1" else "Male")


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\0\0\1", b"a,b\n1,2\n", b" SEX\t\tSex\n", b"1\t\tMale\n", b"\xff\xfe\xfd\n\t\t"]
)
def test_codebook_is_refused_when_it_is_something_else(content):
    with pytest.raises(SpecsError) as caught:
        parse_codebook(content)
    assert caught.value.exit_code == 78
