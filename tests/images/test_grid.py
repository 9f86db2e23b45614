"""Where pixels and label lie in an encoded table of images."""

from dataclasses import replace
from typing import Any

import pytest

from dpwgan.errors import UsageError
from dpwgan.images.grid import ImageGrid, find_image_grid, find_images
from dpwgan.table.encoded import TableShape, lay_out_spans
from tests.critic.tables import make_encoded
from tests.table.images import make_schema


def make_shape(*shape: int, **more: Any) -> TableShape:
    schema = make_schema(*shape, **more)
    return TableShape(records=50, spans=lay_out_spans(schema), image=schema.layout)


def make_grid(shape: tuple[int, int, int]) -> ImageGrid:
    return find_images(make_shape(*shape))


def test_grid_gives_every_pixel_its_column_when_the_table_is_one_of_images():
    shape = make_shape(8, 9, 3)
    grid = find_image_grid(shape, method="m")
    by_source = {span.source: span.column for span in shape.spans if span.head == "linear"}
    assert tuple(by_source[source] for source in grid.sources) == shape.image.pixels
    assert grid.shape == (8, 9, 3)
    assert grid.classes == 3
    assert grid.label.column == "y"


def test_grid_is_none_when_the_table_is_no_table_of_images():
    assert find_image_grid(make_encoded(5).shape, method="m") is None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (make_shape(7, 9), "m has convolutions for images of at least 8 x 8; the layout of the specs says 7 x 9"),
        (
            make_shape(8, 8, age={"type": "enum", "count": 4}),
            "m takes images with one label; the column age is neither pixel nor label",
        ),
    ],
)
def test_grid_is_refused_when_the_images_do_not_fit(shape, message):
    with pytest.raises(UsageError, match=message):
        find_image_grid(shape, method="m")


def test_grid_is_refused_when_the_label_is_no_column_of_categories():
    shape = make_shape(8, 8)
    spans = tuple(
        replace(span, head="linear", role="number", categories=0) if span.column == "y" else span
        for span in shape.spans
    )
    shape = replace(shape, spans=spans)
    assert find_images(shape) is None
    with pytest.raises(UsageError, match="m needs the label y to be a column of categories"):
        find_image_grid(shape, method="m")


def test_images_are_found_unless_their_label_has_too_many_classes():
    assert find_images(make_shape(8, 8, label={"type": "enum", "count": 128})) is not None
    many = make_shape(8, 8, label={"type": "enum", "count": 129})
    assert find_images(many) is None
    assert find_image_grid(many, method="m") is not None
