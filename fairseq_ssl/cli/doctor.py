"""``fairseq-ssl doctor``: check the installation."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from fairseq_ssl.cli import options

EXAMPLES = """\
  fairseq-ssl doctor
  fairseq-ssl doctor --format json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option --format to the parser."""
    options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings as text or JSON. Return 1 if there is a problem, else 0."""
    from fairseq_ssl.plugin.installation import examine_installation

    findings = list(examine_installation())
    if args.format == "json":
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.subject) for finding in findings)
        for finding in findings:
            print(f"{finding.subject:{width}}  {finding.fact}")
            if finding.problem:
                print(f"{'':{width}}  PROBLEM: {finding.problem}")
    return int(any(finding.problem for finding in findings))
