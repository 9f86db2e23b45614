"""The command `dpwgan specs`: specs from dictionaries, and a list of all that is wrong with them."""

from dpwgan.app.commands import Program
from dpwgan.app.specs import check_command, draft_command

EPILOG = f"""\
draft: {draft_command.DETAILS}

check: {check_command.DETAILS}

docs/specs.md describes the specs. Nobody but a public document should say what a column may hold: a range or a list
that is read from private rows gives those rows away.

exit codes: 0 done; 2 usage; 65 the table does not fit the specs; 66 an input is missing; 70 internal error; 73 an
output cannot be created; 74 reading or writing broke off; 78 bad specs, codebook or dictionary; 130, 143 stopped by a
signal."""

PROGRAM = Program(
    name="dpwgan specs",
    commands={"draft": draft_command.COMMAND, "check": check_command.COMMAND},
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
