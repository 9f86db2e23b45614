"""The command `dpwgan specs`: drafts specs, and lists all that is wrong with specs and with tables by them."""

from dpwgan.app.commands import Program
from dpwgan.app.specs import check, draft

EPILOG = """\
draft: what the dictionary says of a column becomes its specs. What it leaves open, a range or a list, is null in the
draft: fill it in by hand. A run refuses a null, and check lists it.

check: SPECS is data-specs.json. With DATA, the private table, every cell is read as well, and rows that break a rule
are counted by column and rule: no epsilon covers the counts, and no cell is shown. Each problem stands on a line of its
own, behind the line of SPECS to look at.

docs/specs.md describes the specs. Nobody but a public document should say what a column may hold: a range or a list
that is read from private rows gives those rows away.

exit codes: 0 done; 2 usage; 65 the table does not fit the specs; 66 an input is missing; 70 internal error; 73 an
output cannot be created; 74 reading or writing broke off; 78 bad specs, codebook or dictionary; 130, 143 stopped by a
signal."""

PROGRAM = Program(
    name="dpwgan specs",
    commands={"draft": draft.COMMAND, "check": check.COMMAND},
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
