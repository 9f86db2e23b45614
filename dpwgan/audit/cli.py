"""The command `dpwgan audit`: what a table or a method gives away, measured. NOT private, as `dpwgan.evaluate.cli`."""

from dpwgan.app.commands import Program
from dpwgan.audit import attack_command, ex_post_command
from dpwgan.audit.canaries import command as canaries
from dpwgan.evaluate.cli import EXIT_CODES
from dpwgan.evaluate.tables import NOTICE

PROGRAM = Program(
    name="dpwgan audit",
    commands={"ex-post": ex_post_command.COMMAND, "attack": attack_command.COMMAND, "canaries": canaries.COMMAND},
    notice=f"NOT private: {NOTICE[0].lower() + NOTICE[1:]}",
    epilog=f"docs/audit.md says how to read each figure.\n\n{EXIT_CODES}",
)
main = PROGRAM.main
add_arguments = PROGRAM.add_arguments
