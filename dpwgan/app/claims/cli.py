"""The command `dpwgan claim`: for whoever receives a claim, or passes it on."""

from dpwgan.app.claims import export_command, verify_command
from dpwgan.app.commands import Program

EPILOG = f"""\
verify: {verify_command.DETAILS}

export: {export_command.DETAILS}

docs/claim.md reads a claim line by line.

exit codes: 0 done, and the claim holds; 2 usage; 65 it does not, or promises nothing; 66 an input is missing; 70
internal error; 73 an output cannot be created; 74 reading or writing broke off; 130, 143 stopped by a signal."""

PROGRAM = Program(
    name="dpwgan claim",
    commands={"verify": verify_command.COMMAND, "export": export_command.COMMAND},
    epilog=EPILOG,
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
