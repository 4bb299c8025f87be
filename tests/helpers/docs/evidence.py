# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""By fenced block of README and the pages: the test that runs it as it is printed, or why none does.

A key is the block's name (page and heading, numbered by language) and its language. Commands that a test does not run
are still looked at by ``test_commands.py``: their options, make targets, variables and paths exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from helpers.docs import pages
from helpers.docs.python_blocks import SETTINGS
from helpers.docs.tutorials import FOLDER

Key = tuple[str, str]


@dataclass(frozen=True)
class Shown:
    """A block that no test runs."""

    why: str


_COMMANDS: Final = "tests/integration/docs/test_commands.py"
_OUTPUTS: Final = "tests/integration/docs/test_outputs.py"
_RECIPES: Final = "tests/integration/docs/test_recipes.py"
_SEE: Final = "tests/integration/docs/test_see.py"
_BLOCKS: Final = "tests/integration/docs/test_python_blocks.py"
_PAYS: Final = "tests/integration/host/test_pays.py"
_WHERE: Final = "tests/unit/lab/bench/where/test_page.py"

_SIMULATED: Final = "tests/unit/lab/simulate/test_measure.py"
_TRACES: Final = "tests/unit/docs/test_traces.py"

_DIAGRAM: Final = Shown("a drawing in letters, nothing to run")
_FORMULA: Final = Shown("a formula in words; tests/unit/lab/bench/where/test_model.py computes it by hand")
_TREE: Final = Shown("needs two servers; test_cli.py of the aggregator starts such a tree")
_TESTS: Final = Shown("runs tests, which run themselves; their paths are checked")
_HOURS: Final = Shown("measures for minutes to hours on a quiet machine; its options are checked")
_CI: Final = Shown("what every change runs anyway, in .ci/run")
_TRIAL: Final = Shown("lines of a trial that is not in the program: there is nothing that they could go into")
_SYSTEM: Final = Shown("changes the machine, as root")
_SYNOPSIS: Final = Shown("a list of commands with placeholders; their options are checked")
_INSTALL: Final = Shown(
    "installs from the package index: tests/system/test_start.py does so from the wheel, in make verify-ways"
)

_TUTORIALS: Final = {
    "first-run.md": "test_first_run",
    "eight-servers.md": "test_eight_servers",
    "bmv2.md": "test_a_session_with_the_switch",
    "study.md": "test_a_study",
    "codec.md": "test_a_codec",
    "op.md": "test_an_op",
    "p4.md": "test_a_p4_program",
}
_NOTEBOOK: Final = "tests/integration/docs/test_notebook.py::test_the_notebook_is_executed"
_LINES: Final = "tests/integration/docs/test_outputs.py::test_code_of_explanations"

EVIDENCE: Final[Mapping[Key, str | Shown]] = {
    **{
        (block.name, block.language): f"tests/system/test_tutorials.py::{test}"
        for page, test in _TUTORIALS.items()
        for block in pages.blocks_of(FOLDER / page)
    },
    ("first-run.md: 4. Change something", ""): Shown(
        "minutes in Mininet; tests/system has short runs with these options"
    ),
    ("first-run.md: 4. Change something (2)", ""): Shown(
        "minutes in Mininet; tests/system has short runs of Marsit in a tree"
    ),
    ("first-run.md: 4. Change something (3)", ""): Shown("minutes in Mininet; tests/system has short runs with loss"),
    ("eight-servers.md: 1. Install", ""): _INSTALL,
    ("notebook.md: A notebook: what the switch sees", ""): Shown("installs Jupyter from the package index"),
    ("notebook.md: A notebook: what the switch sees (2)", ""): _NOTEBOOK,
    ("why-bit-planes.md: Addition, one place at a time", "py"): _LINES,
    ("why-bit-planes.md: Addition, one place at a time", ""): _LINES,
    **{(name, "python"): f"{_BLOCKS}::test_block_runs_on_ranks" for name in SETTINGS},
    **{(block.name, "yaml"): f"{_COMMANDS}::test_yaml_on_pages_is_valid" for block in pages.blocks("yaml")},
    **{(block.name, "json"): f"{_COMMANDS}::test_job_files_on_pages_are_valid" for block in pages.blocks("json")},
    ("controller.md: From Python", "python"): f"{_BLOCKS}::test_controller_block_runs",
    ("softswitch.md: Command line", "python"): f"{_BLOCKS}::test_soft_switch_block_runs",
    ("softswitch.md: Command line", "py"): (
        "tests/integration/softswitch/test_unix_ports.py::test_the_page_s_host_without_rights"
    ),
    ("see.md: scapy", "python"): f"{_SEE}::test_scapys_block",
    # README
    ("README.md: Run it", ""): Shown("make run: the tutorial's test runs it, in make verify-see; make test is this"),
    ("README.md: Run it (2)", ""): Shown(
        "runs of minutes in Mininet; their options are checked, tests/system has short ones"
    ),
    ("README.md: How a gradient is summed", ""): _DIAGRAM,
    ("README.md: In your training loop", ""): f"{_OUTPUTS}::test_sumwire_up_on_servers",
    ("README.md: In your training loop (2)", ""): f"{_COMMANDS}::test_readmes_controller_commands_run",
    # CONTRIBUTING
    ("CONTRIBUTING.md: Set-up", ""): _CI,
    ("CONTRIBUTING.md: Set-up (2)", ""): _TESTS,
    ("CONTRIBUTING.md: An op", "text"): f"{_RECIPES}::test_the_row_of_an_op_is_the_sources",
    ("CONTRIBUTING.md: An op", ""): _TESTS,
    ("CONTRIBUTING.md: A codec", ""): _TESTS,
    ("CONTRIBUTING.md: A system", "text"): f"{_RECIPES}::test_a_system_of_the_recipe",
    ("CONTRIBUTING.md: A system", ""): _TESTS,
    ("CONTRIBUTING.md: A topology", "text"): f"{_RECIPES}::test_a_topology_of_the_recipe",
    ("CONTRIBUTING.md: A topology", ""): _TESTS,
    ("CONTRIBUTING.md: A table", "text"): _TRIAL,
    ("CONTRIBUTING.md: A table", ""): _TESTS,
    ("CONTRIBUTING.md: A benchmark row", "text"): _TRIAL,
    ("CONTRIBUTING.md: A benchmark row", ""): _TESTS,
    # aggregator.md
    ("aggregator.md: Use", ""): f"{_OUTPUTS}::test_the_aggregator_says_what_the_page_says",
    ("aggregator.md: Use (2)", ""): f"{_OUTPUTS}::test_the_aggregator_says_what_the_page_says",
    ("aggregator.md: Use (3)", ""): Shown("a line for another job; test_cli.py of the aggregator serves lanes"),
    ("aggregator.md: Use (4)", ""): f"{_OUTPUTS}::test_the_aggregator_says_what_the_page_says",
    ("aggregator.md: A tree of aggregators", ""): _TREE,
    ("aggregator.md: A tree of aggregators (2)", ""): _TREE,
    ("watch.md: Logs", "json"): "tests/unit/commonlib/test_logs.py::test_the_page_shows_a_line_as_it_is",
    ("watch.md: Top", ""): "tests/integration/host/top/test_top.py::test_the_page_s_commands_name_endpoints",
    # other pages
    ("backend.md: PyTorch's own tests", "text"): "tests/integration/host/backend/test_torch_tests.py::test_of_torch",
    ("benchmark.md: The benchmark", ""): _HOURS,
    ("clusters.md: Slurm", ""): Shown("needs eight nodes; test_launched.py has srun start two ranks on one"),
    ("clusters.md: Slurm (2)", ""): Shown(
        "needs eight nodes; tests/unit/host/start/test_launchers.py reads the hosts of an allocation"
    ),
    ("clusters.md: mpirun", "text"): "tests/unit/host/start/test_launchers.py::test_the_page_has_the_message",
    ("clusters.md: Ray Train", "text"): Shown("needs Ray: tests/system/test_packages.py has it train, in verify-ways"),
    ("controller.md: The controller", ""): _SYNOPSIS,
    ("controller.md: Errors in a file", ""): f"{_OUTPUTS}::test_broken_rules_of_a_file",
    ("controller.md: Jobs that have run", ""): Shown(
        "a message about runs long gone; tests/unit/controller/deploy/test_running.py holds its form"
    ),
    ("controller.md: What watch does", ""): Shown(
        "needs four root switches, one of them killed: tests/system/test_controller_watch.py does that"
    ),
    ("dlcp.md: The default policy", ""): f"{_COMMANDS}::test_inspect_runs",
    ("dlcp.md: How much loss a script bears", ""): Shown(
        "16 trainings; test_loss_profile.py runs the script once, and the command with a quick one"
    ),
    ("dlcp.md: How much loss a script bears (2)", ""): Shown("the end of those 16 trainings on one machine"),
    ("host.md: The process group, where it is faster", ""): Shown(
        "needs four hosts; tests/integration/host/job/test_path_choice.py measures a table on ranks"
    ),
    ("install.md: Install", ""): Shown(
        "needs the package index: tests/system/test_packages.py installs each extra, in make release and verify-ways"
    ),
    ("install.md: Wheels with compiled kernels", ""): Shown(
        "compiles for minutes: tests/system/test_packages.py runs the program behind it, in make verify-ways"
    ),
    ("install.md: Containers", ""): Shown(
        "needs a builder of images: tests/system/test_packages.py runs the steps in a bare Debian, in make verify-ways"
    ),
    ("install.md: Under systemd", ""): _SYSTEM,
    ("lab.md: Again, and beside another", ""): Shown(
        "runs of half a minute in Mininet; test_comparison.py and test_recorded.py hold what comes of their files"
    ),
    ("lab.md: A lab of your own", ""): Shown("runs in Mininet: tests/system/test_own_lab.py has short ones of each"),
    ("models.md: Models", "bash"): Shown(
        "installs, then minutes; tests/integration/lab/models/test_spin.py runs one model"
    ),
    ("models.md: Counterexamples on the real code", "bash"): f"{_OUTPUTS}::test_a_counterexample_by_hand",
    ("see.md: Capture", ""): Shown("needs a network interface with a job's packets"),
    ("see.md: A chunk's life", ""): f"{_SEE}::test_decodes_commands",
    ("see.md: A chunk's life", "text"): Shown("a run's output; tests/integration/host/see holds its form"),
    ("see.md: Wireshark and tshark", ""): f"{_SEE}::test_tsharks_commands",
    ("simulate.md: Your first figure in ten minutes", "console"): f"{_SIMULATED}::test_the_first_table_of_the_page",
    (
        "simulate.md: Your first figure in ten minutes (2)",
        "console",
    ): f"{_SIMULATED}::test_the_first_figure_of_the_page",
    ("simulator.md: Simulator", "console"): _HOURS,
    ("simulator.md: Simulator (2)", "console"): Shown(
        "thousands of lines; test_command_shows_one_seed of tests/integration/simulate runs the command for a seed"
    ),
    ("simulator.md: Simulator (3)", "console"): _HOURS,
    ("simulator.md: Simulator (4)", "console"): _HOURS,
    ("simulator.md: Simulator (5)", "console"): _HOURS,
    ("softswitch.md: The soft switch", ""): Shown(
        "needs a lab's interfaces; the lab starts it so, and tests/integration/softswitch runs its options"
    ),
    **{
        (f"softswitch.md: In a course{number}", language): Shown(
            "needs a copy of p4lang/tutorials, the package index and Mininet; test_drop_in.py has the harness's words"
        )
        for number, language in (("", ""), ("", "text"), (" (2)", ""), (" (3)", ""))
    },
    ("softswitch.md: Look into a running switch", ""): (
        "tests/integration/softswitch/test_command_door.py::test_the_session_of_the_page"
    ),
    ("softswitch.md: In a PTF test", "py"): "tests/system/test_packages.py::test_a_ptf_test_as_the_page_has_it",
    ("softswitch.md: In a PTF test", ""): "tests/system/test_packages.py::test_a_ptf_test_as_the_page_has_it",
    ("softswitch.md: Rights", ""): _SYSTEM,
    ("trace.md: Trace", ""): Shown("needs a lab's interfaces; tests/unit/softswitch/test_trace.py has its options"),
    ("trace.md: Trace", "python"): f"{_TRACES}::test_the_page_s_block_prints_what_the_page_says",
    ("trace.md: Trace", "text"): f"{_TRACES}::test_the_page_s_block_prints_what_the_page_says",
    ("trace.md: Trace (2)", "text"): f"{_TRACES}::test_the_frame_that_sumwire_drops",
    ("trace.md: Coverage", "text"): f"{_TRACES}::test_the_coverage_of_the_packet_of_the_page",
    ("softswitch.md: How it works", ""): _DIAGRAM,
    **{
        (block.name, block.language): "tests/unit/docs/test_tutorials.py::test_excerpts_of_a_program_are_the_examples"
        for block in pages.blocks_of(FOLDER.parent / "p4-library.md")
        if block.language == "p4"
    },
    ("p4-library.md: What to include", ""): Shown("test_samples.py compiles the program with these options"),
    ("elastic.md: Start", ""): _INSTALL,
    ("elastic.md: Start (2)", ""): Shown("needs four servers; tests/system/test_elastic.py has it on loopback"),
    ("elastic.md: Start (3)", ""): Shown("needs four servers; tests/system/test_elastic.py has it on loopback"),
    ("elastic.md: The script", "text"): Shown("needs torchft, and a batch; examples/elastic.py has these lines"),
    ("start.md: Install and start", ""): _INSTALL,
    ("start.md: Install and start (2)", ""): f"{_OUTPUTS}::test_sumwire_up_on_servers",
    ("start.md: Install and start (3)", ""): f"{_OUTPUTS}::test_sumwire_up_on_servers",
    ("start.md: Install and start (4)", ""): Shown(
        "needs eight servers: tests/system/test_start.py::test_eight_servers runs it in eight network namespaces"
    ),
    ("start.md: Many servers, or several racks", ""): f"{_OUTPUTS}::test_sumwire_up_in_racks",
    ("start.md: Many servers, or several racks (2)", ""): f"{_OUTPUTS}::test_sumwire_up_in_racks",
    ("start.md: Three lines in the script", ""): Shown(
        "the first line of that training, which test_eight_servers wants"
    ),
    ("start.md: The system that pays", "text"): Shown(
        "of eight servers; tests/integration/host/start/test_auto.py wants such a line of what it measures"
    ),
    ("start.md: Under a framework", "text"): Shown(
        "imports of frameworks that few machines have; test_examples.py runs them"
    ),
    ("start.md: Under a framework (2)", "text"): Shown("a message about a model without DDP; it needs a framework"),
    ("troubleshooting.md: Troubleshooting", ""): _SYNOPSIS,
    ("troubleshooting.md: Ask the doctor first", ""): f"{_OUTPUTS}::test_the_doctors_commands",
    ("troubleshooting.md: Ask the doctor first", "text"): Shown(
        "needs a firewall: make verify-see makes one, and wants cause and cure"
    ),
    ("where-it-pays.md: The formula", ""): _FORMULA,
    (
        "where-it-pays.md: Before anything is set up",
        "",
    ): "tests/integration/host/test_pays.py::test_it_prints_the_page_s_table",
    ("where-it-pays.md: Before anything is set up", "text"): (
        "tests/integration/host/test_pays.py::test_it_prints_the_page_s_table"
    ),
    ("where-it-pays.md: On your machine", ""): _HOURS,
    ("where-it-pays.md: On your machine (2)", ""): _HOURS,
    ("wire-format.md: Wire format", ""): f"{_OUTPUTS}::test_the_headers_drawing_is_the_programs",
}
