# SPDX-License-Identifier: LGPL-2.1-or-later
"""bench.py collect < LINES | figure NAME < bench.json | table < bench.json: results of scripts/bench.

collect  LINES are the programs' cases, one JSON object a line, after {"bench": NAME}; or {"bench": NAME, "micro": what
         Google Benchmark writes}, where each X is compared with X/bare. Writes bench.json.
figure   an SVG of one benchmark's ratios
table    for people; status 1 if a ratio is above its limit
"""
import json
import statistics
import sys
from xml.sax.saxutils import escape

BARE = "/bare"


def quantile(values, share):
    values = sorted(values)
    return values[min(int(share * len(values)), len(values) - 1)]


def micro_cases(output):
    """{case: result} of a program of Google Benchmark; its repetitions are pairs in the order they were run."""
    runs = {}  # CPU time: of the calls, not of who else runs
    for run in output["benchmarks"]:
        if run.get("error_occurred"):
            sys.exit(f"{run['name']}: {run.get('error_message', 'failed')}")
        if run.get("run_type") == "iteration":
            runs.setdefault(run["run_name"], []).append(run["cpu_time"])
    cases = {}
    for name, times in runs.items():
        if name.endswith(BARE):
            continue
        bare = runs[name + BARE]
        ratios = [a / b for a, b in zip(times, bare)]
        cases[name] = {
            "value": round(statistics.median(times), 1), "unit": "ns",
            "ratio": round(statistics.median(times) / statistics.median(bare), 4),
            "against": "the bare system calls that it cannot do without",
            "spread": round(quantile(ratios, 0.75) - quantile(ratios, 0.25), 4)}
    return cases


def collect(lines):
    benches, name = {}, None
    for line in lines:
        entry = json.loads(line)
        if "bench" in entry:
            name = entry["bench"]
            benches.setdefault(name, {})
            if "micro" in entry:
                benches[name] |= micro_cases(entry["micro"])
        else:
            benches[name][entry.pop("case")] = entry
    return benches


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def figure(name, cases):
    """Bars of the ratios, a line at 1 (what it is compared with), whiskers of the spread, a mark at the limit."""
    left, width, right, row, top = 300, 420, 190, 34, 64
    height = top + row * len(cases) + 44
    largest = 1.15 * max([1.2] + [max(c["ratio"], c.get("limit", 0)) for c in cases.values()])  # a whisker may end at the edge

    def x(ratio):
        return left + width * min(ratio, largest) / largest

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + right} {height}" '
           f'width="{left + width + right}" height="{height}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="#ffffff"/>',
           f'<text x="16" y="26" font-size="16" font-weight="bold" fill="#1a1a1a">{escape(name)}: how many times what it is compared with</text>',
           '<text x="16" y="46" fill="#555555">bar: ratio in one run; whisker: its spread; red line: the largest that is accepted</text>']
    step = next(step for step in (0.25, 0.5, 1, 2, 5, 10, 100, largest) if largest / step <= 10)
    tick = 0.0
    while tick <= largest:
        colour = "#1a1a1a" if abs(tick - 1) < 1e-9 else "#dddddd"
        out.append(f'<line x1="{x(tick):.1f}" y1="{top}" x2="{x(tick):.1f}" y2="{height - 38}" stroke="{colour}"/>')
        out.append(f'<text x="{x(tick):.1f}" y="{height - 20}" text-anchor="middle" fill="#555555">{tick:g}×</text>')
        tick += step
    for i, (case, c) in enumerate(cases.items()):
        y = top + row * i
        middle = y + row / 2
        fill = "#c0392b" if "limit" in c and c["ratio"] > c["limit"] else "#2f6f9f"
        out.append(f'<g><title>{escape(case)}, against {escape(c["against"])}</title>')
        out.append(f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end" fill="#1a1a1a">{escape(case)}</text>')
        out.append(f'<rect x="{left}" y="{y + 8}" width="{x(c["ratio"]) - left:.1f}" height="{row - 16}" fill="{fill}"/>')
        low, high = x(max(c["ratio"] - c["spread"] / 2, 0)), x(c["ratio"] + c["spread"] / 2)
        out.append(f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8" stroke="#1a1a1a" fill="none"/>')
        if "limit" in c:
            out.append(f'<line x1="{x(c["limit"]):.1f}" y1="{y + 3}" x2="{x(c["limit"]):.1f}" y2="{y + row - 3}" stroke="#c0392b" stroke-width="2"/>')
        out.append(f'<text x="{left + width + 12}" y="{middle + 4}" fill="#1a1a1a">{c["ratio"]:.2f}× '
                   f'({number(c["value"])} {escape(c["unit"])})</text></g>')
    out.append("</svg>")
    return "\n".join(out)


def table(benches):
    passed = True
    for name, cases in benches.items():
        print(name)
        for case, c in cases.items():
            verdict = ""
            if "limit" in c:
                within = c["ratio"] <= c["limit"]
                passed = passed and within
                verdict = f"  {'within' if within else 'ABOVE'} the limit of {c['limit']:.2f}"
            print(f"  {case:<44} {number(c['value']):>8} {c['unit']:<3} {c['ratio']:6.2f} ± {c['spread'] / 2:.2f} "
                  f"times {c['against']}{verdict}")
    return passed


def main(what, *arguments):
    if what == "collect":
        json.dump(collect(sys.stdin), sys.stdout, indent=1, ensure_ascii=False)
        print()
    elif what == "figure":
        print(figure(arguments[0], json.load(sys.stdin)[arguments[0]]))
    elif what == "table":
        return 0 if table(json.load(sys.stdin)) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
