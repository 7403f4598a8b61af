"""The commands of `elf`: where each is, its line in --help, and its section there.

The module imports no command. `entry` does that when a command is called.
"""

from __future__ import annotations

_CLIENT = "elfmesh.cli.jobs.commands"
COMMANDS: dict[str, tuple[str, str]] = {
    "run": (
        "elfmesh.cli.local.run:run_command",
        "Run a query over log files in one process, without a network.",
    ),
    "sql": (
        "elfmesh.cli.sql.command:sql_command",
        "Query log files or the fleet in an interactive shell.",
    ),
    "report": ("elfmesh.cli.local.report:report_command", "Summarise log files without a query."),
    "demo": ("elfmesh.cli.demo.demo:demo_command", "Run local agents over the generated traffic of a shop."),
    "agent": (
        "elfmesh.cli.host.agent:agent_command",
        "Run the agent of this host.",
    ),
    "apply": (_CLIENT, "Submit a job, or update it if it is running."),
    "update": (_CLIENT, "Replace the query of a running job."),
    "publish": (_CLIENT, "Publish a file as a lookup table of running jobs."),
    "rollout": (_CLIENT, "Show, undo or promote the last change of a job."),
    "status": (_CLIENT, "Show whether all agents and jobs are well, and what is wrong."),
    "wait": (_CLIENT, "Wait until agents are alive or a job has a complete result."),
    "ok-to-stop": (_CLIENT, "Check whether agents can be stopped without a job stopping."),
    "forget": ("elfmesh.cli.jobs.forget:forget_command", "Remove dead agents from the list of agents."),
    "what-if": (_CLIENT, "Print what results would be worth without a rack or host."),
    "get": (_CLIENT, "List jobs, agents, streams or trees."),
    "describe": (_CLIENT, "Show the details of one job, agent or stream, or of log files."),
    "results": (_CLIENT, "Print the results of a job, one record per interval."),
    "query": (_CLIENT, "Run a query over results of jobs, or over streams."),
    "cancel": (_CLIENT, "End a query over streams."),
    "top": (_CLIENT, "Show the load of agents and jobs, live."),
    "tap": (_CLIENT, "Show new lines of a stream, or those that a job reads."),
    "why": (_CLIENT, "Show which agent and which interval delay a job."),
    "verify": (_CLIENT, "Recompute a closed interval from the raw logs and compare."),
    "dead-letters": (
        "elfmesh.cli.host.dead_letters:dead_letters_command",
        "Print records that were sealed too late for their interval.",
    ),
    "compact": ("elfmesh.cli.host.compact:compact_command", "Merge the small files of a Parquet sink."),
    "backup": (
        "elfmesh.cli.host.backup:backup_command",
        "Back up the data directory of an agent.",
    ),
    "check": ("elfmesh.cli.host.check:check_command", "Check a data directory for damage, offline."),
    "repair": ("elfmesh.cli.host.check:repair_command", "Repair a damaged data directory, offline."),
    "restore": (
        "elfmesh.cli.host.backup:restore_command",
        "Create the data directory of a new agent from a backup.",
    ),
    "audit": ("elfmesh.cli.host.audit:audit_group", "Show or verify the audit log of an agent."),
    "init": ("elfmesh.cli.host.init:init_command", "Write an agent.toml for the logs of this host."),
    "doctor": (
        "elfmesh.cli.host.doctor:doctor_command",
        "Check a host and its agent, and say what to do.",
    ),
    "archive": (
        "elfmesh.cli.host.archive:archive_command",
        "Write all new lines of this host's streams to their archives.",
    ),
    "pause": (_CLIENT, "Pause a job."),
    "resume": (_CLIENT, "Resume a paused job."),
    "revoke": (_CLIENT, "Revoke signed versions of a job permanently."),
    "empty": (_CLIENT, "Start a new batch on all agents at one interval boundary."),
    "savepoint": (
        "elfmesh.cli.jobs.savepoint:savepoint_group",
        "Save a job and its results to a file, or restore them.",
    ),
    "delete": (_CLIENT, "Delete a job and its results."),
    "page": ("elfmesh.cli.host.page:page_command", "Open the web page of an agent."),
    "health": (_CLIENT, "Report the health of an agent."),
    "job": ("elfmesh.cli.jobs.job:job_group", "Recover a job that has lost a majority of its voters."),
    "leave": (_CLIENT, "Remove an agent from the overlay permanently."),
    "program": ("elfmesh.cli.jobs.program:program_group", "Run your own program beside an agent."),
    "explain": (
        "elfmesh.cli.local.explain:explain_command",
        "Show the plan of a query before it runs.",
    ),
    "blazes": (
        "elfmesh.cli.local.blazes:blazes_command",
        "Show which outputs can differ, why, and what repairs them.",
    ),
    "lint": (
        "elfmesh.cli.local.lint:lint_command",
        "Find what makes outputs differ, in texts and programs.",
    ),
    "plan": (
        "elfmesh.cli.local.plan:plan_command",
        "Choose tasks to replicate, or show the layout of a job.",
    ),
    "bench": ("elfmesh.cli.host.bench:bench_group", "Measure what an agent costs on this machine."),
    "validate": (
        "elfmesh.cli.host.validate:validate_command",
        "Check job files and configuration files without running them.",
    ),
    "test": ("elfmesh.cli.local.test:test_command", "Run the --@test cases of job files."),
    "spark": ("elfmesh.cli.local.spark:spark_group", "Run ELF-QL over historical logs on Spark."),
    "diff": (
        "elfmesh.cli.local.diff:diff_command",
        "Compare the results of a job with Spark over the same logs.",
    ),
    "key": ("elfmesh.cli.host.sign:key_group", "Manage keys that sign jobs."),
    "sign": ("elfmesh.cli.host.sign:sign_command", "Sign jobs, or the revocation of a job."),
    "ca": ("elfmesh.cli.host.ca:ca_group", "Manage certificates for agents and users."),
    "schema": ("elfmesh.cli.host.validate:schema_command", "Print the JSON schema of agent.toml."),
    "completion": (
        "elfmesh.cli.entry:completion_command",
        "Print or install a completion script for bash, zsh or fish.",
    ),
}
"""Name of each command: its location ("module:attribute", or a module with `add_commands(group)`) and its
line in --help."""

SECTIONS = {
    "On one machine": "run sql report demo explain blazes lint plan test validate spark diff",
    "Jobs": "apply update publish rollout pause resume revoke empty delete savepoint job program",
    "Results": "results query cancel why verify tap dead-letters",
    "The fleet": "status wait ok-to-stop what-if forget get describe top health page leave",
    "A host": "agent doctor check repair backup restore compact archive audit bench",
    "Keys and certificates": "ca key sign",
    "Set-up": "init schema completion",
}
"""Sections of --help. Each command is in one."""

WITH_PANDAS = ("demo", "diff", "program", "publish", "spark")
"""Commands that may use pandas: they start Spark, which requires it, run a user's program, or read a table.
In the other commands, Arrow would load it, which takes longer than the rest of `elf apply`."""

OWN_MEANING = frozenset(
    {
        "ELF_AGENT_API",  # the agent's own API address; ELF_API is the address of the agent to query
        "ELF_EXPLAIN_COST",  # a switch; ELF_COST is a number of `elf plan`
        "ELF_BLAZES_OUTPUT",  # text or a picture; ELF_OUTPUT is table, json or csv
        "ELF_LINT_OUTPUT",
        "ELF_PLAN_OUTPUT",
        "ELF_BACKUP_OUTPUT",  # a file; ELF_OUTPUT is an output format
        "ELF_INIT_OUTPUT",
        "ELF_SAVEPOINT_CREATE_OUTPUT",
        "ELF_SIGN_OUTPUT",
        "ELF_SIGN_KEY",  # a key that signs jobs; ELF_KEY is the key of a client certificate
        "ELF_CA_SERVE_LISTEN",  # the address of the authority; ELF_LISTEN is the address of an agent
        "ELF_RESULTS_FROM",  # the number of an interval; ELF_FROM is a time
        "ELF_SAVEPOINT_RESULTS_FROM",
        "ELF_BLAZES_SAMPLE",  # a log; ELF_SAMPLE is a number of records
        "ELF_EXPLAIN_SAMPLE",
        "ELF_LINT_SAMPLE",
        "ELF_PUBLISH_NAME",  # the name of a table; ELF_NAME is the name of an agent
        "ELF_TOP_AGENTS",  # a choice of what to show; ELF_AGENTS is the number of agents of the demo
    }
)
"""Options that share a name with an option of another meaning. A shared variable would set both."""
