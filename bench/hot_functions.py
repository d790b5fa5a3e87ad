"""Which functions take most of a process's CPU time, from the stacks that py-spy sampled."""

from collections import Counter


def count_samples(stacks: str) -> Counter[str]:
    """Return how often each function was the innermost one. A line of `stacks` is the frames of a stack from the
    outermost to the innermost, with `;` between them, and how often it was seen (py-spy's format `raw`)."""
    samples: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames and count.isdigit():
            samples[frames.rpartition(";")[2]] += int(count)
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
