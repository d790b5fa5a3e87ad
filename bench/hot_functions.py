"""Which functions take most of a process's CPU time, from sampled stacks."""

from collections import Counter
from collections.abc import Sequence

from stacks import Stack


def count_samples(stacks: Sequence[Stack]) -> Counter[str]:
    """Return how often each function was the innermost one."""
    samples: Counter[str] = Counter()
    for stack in stacks:
        samples[stack.functions[-1]] += stack.samples
    return samples


def make_table(title: str, samples: Counter[str], unit: str, cpu_us: float, shown: int) -> str:
    """Return the functions with the most samples as a Markdown table. `cpu_us` is the CPU time of one `unit`."""
    total = sum(samples.values())
    lines = [f"{title}: {cpu_us:.3g} CPU-µs for each {unit}; {total:,} samples of the running Python code.", ""]
    lines += [f"| function | CPU-µs/{unit} | share |", "|---|---|---|"]
    for function, count in samples.most_common(shown):
        share = count / total
        lines.append(f"| `{function}` | {share * cpu_us:.3g} | {share:.1%} |")
    return "\n".join(lines)
