# SPDX-License-Identifier: LGPL-2.1-or-later
"""summary.py SUITE=LOG…: counts what `meson test` ran and says why anything was skipped.

LOG is a testlog.json of meson (one object a line), the word passed or failed, or `skipped: REASON`. Programs of GoogleTest count by their cases,
others as one. A program that failed without a failed case (a crash, a time-out) is one failure. Ends with the line
`N passed, N failed[, N skipped]` and status 1 if anything failed or nothing ran.
"""
import json
import re
import sys

CASE = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (\S+?),? .*\(\d+ ms\)\s*$")
SKIP_REASON = re.compile(r"^(?:.*: )?Skipped$")


def cases(output):
    """(verdict, name, reason) of every GoogleTest case in a program's output."""
    reason = []
    collecting = False
    for line in output.splitlines():
        match = CASE.match(line)
        if match:
            yield match.group(1), match.group(2), " ".join(reason)
            reason, collecting = [], False
        elif line.startswith("[ RUN"):
            reason, collecting = [], False
        elif SKIP_REASON.match(line):
            collecting = True
        elif collecting and line.strip():
            reason.append(line.strip())


def main(logs):
    passed = failed = skipped = 0
    for entry in logs:
        suite, _, log = entry.partition("=")
        if log in ("passed", "failed"):
            passed += log == "passed"
            failed += log == "failed"
            if log == "failed":
                print(f"FAILED  {suite}")
            continue
        if log.startswith("skipped: "):
            skipped += 1
            print(f"SKIPPED {suite}: {log.removeprefix('skipped: ')}")
            continue
        try:
            with open(log, encoding="utf-8") as file:
                programs = [json.loads(line) for line in file]
        except OSError as error:
            print(f"FAILED  {suite}: {error}")
            failed += 1
            continue
        if not programs:
            print(f"FAILED  {suite}: no test ran")
            failed += 1
        for program in programs:
            name = program["name"].split(" / ")[-1].strip()
            output = program.get("stdout", "") or ""
            verdicts = list(cases(output))
            if program["result"] == "SKIP" and not verdicts:
                skipped += 1
                lines = (output + "\n" + (program.get("stderr", "") or "")).strip().splitlines()
                print(f"SKIPPED {suite}: {name}: {lines[-1] if lines else 'no reason given'}")
                continue
            bad = [case for verdict, case, _ in verdicts if verdict == "FAILED"]
            for case in bad:
                print(f"FAILED  {suite}: {name}: {case}")
            for verdict, case, reason in verdicts:
                if verdict == "SKIPPED":
                    print(f"SKIPPED {suite}: {name}: {case}: {reason or 'no reason given'}")
            failed += len(bad)
            passed += sum(verdict == "OK" for verdict, _, _ in verdicts)
            skipped += sum(verdict == "SKIPPED" for verdict, _, _ in verdicts)
            if program["result"] in ("OK", "EXPECTEDFAIL"):
                passed += not verdicts
            elif program["result"] != "SKIP" and not bad:
                failed += 1
                print(f"FAILED  {suite}: {name}: {program['result'].lower()}, exit status {program['returncode']}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not (passed or skipped) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
