"""Booleans: two cells in any of their spellings."""

from dpwgan.table.schema import BooleanColumn
from dpwgan.table.specs.keys import MISSING_KEYS, Keys, write_item

BOOLEAN_KEYS = MISSING_KEYS | {"true", "false"}

_SPELLINGS = {"true": ["true", "1"], "false": ["false", "0"]}


def parse_boolean(keys: Keys) -> BooleanColumn:
    """Reads a boolean. Raises: SpecsError."""
    if ("true" in keys) != ("false" in keys):
        raise keys.refuse("'true' and 'false' go together")
    given = [keys.get(key, usual) for key, usual in _SPELLINGS.items()]
    true, false = ([write_item(item) for item in (cells if isinstance(cells, list) else [cells])] for cells in given)
    missing = keys.read_missing()
    cells = [cell.strip().lower() for cell in (*true, *false, *missing)]
    if len(set(cells)) < len(cells):
        raise keys.refuse("'true', 'false' and the cells for not available have a spelling in common, or one twice")
    if "" in cells[: len(true) + len(false)]:
        raise keys.refuse('the empty cell is neither true nor false; say "optional": true instead')
    out_of_domain = keys.read_out_of_domain(missing)
    if out_of_domain == "clamp":
        raise keys.refuse('"out_of_domain": "clamp" needs numbers')
    return BooleanColumn(
        name=keys.name,
        tokens=(true[0], false[0], *missing),
        missing=missing,
        spellings=(tuple(true[1:]), tuple(false[1:])),
        out_of_domain=out_of_domain,
    )
