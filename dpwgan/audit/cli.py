"""The command `dpwgan audit`: what a table or a method gives away, measured. NOT private.

Privacy: everything it writes holds statistics of the real rows that no epsilon covers, and says so. It runs apart from
  the job that makes a release, writes nowhere but where it is told to, and its messages on stderr hold no cell.
"""

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
