"""Reference implementation of MaxMatch, slow and literal, for the fast one to be compared with.

It computes a table of distances, the transitive arcs of the lattice (Floyd-Warshall), their weights
and the shortest path (Bellman-Ford). It shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf

Node = tuple[int, int]
Arc = tuple[Node, Node]
Edit = tuple[int, int, str, str]
"""Start, end, source words, correction."""
Gold = tuple[int, int, str, Sequence[str]]
Step = tuple[str, int, int, str, str, int]
"""Kind, start, end, source words, correction, number of unchanged words."""

SMALL = 0.001


def table(source: list[str], output: list[str], dear: int) -> dict[Node, list[tuple[Node, Step]]]:
    """Return the cheapest steps into each cell. `dear` is the cost of a substitution."""
    cost: dict[Node, int] = {(0, 0): 0}
    back: dict[Node, list[tuple[Node, Step]]] = {}
    for i in range(1, len(source) + 1):
        cost[i, 0] = i
        back[i, 0] = [((i - 1, 0), ("del", i - 1, i, source[i - 1], "", 0))]
    for j in range(1, len(output) + 1):
        cost[0, j] = j
        back[0, j] = [((0, j - 1), ("ins", 0, 0, "", output[j - 1], 0))]
    for i, j in product(range(1, len(source) + 1), range(1, len(output) + 1)):
        word, other = source[i - 1], output[j - 1]
        same = word == other
        pair = cost[i - 1, j - 1] + (0 if same else dear)
        delete, insert = cost[i - 1, j] + 1, cost[i, j - 1] + 1
        cheapest = cost[i, j] = min(pair, delete, insert)
        steps = back[i, j] = []
        if pair == cheapest:
            kind = "noop" if same else "sub"
            steps.append(((i - 1, j - 1), (kind, i - 1, i, word, other, int(same))))
        if delete == cheapest:
            steps.append(((i - 1, j), ("del", i - 1, i, word, "", 0)))
        if insert == cheapest:
            steps.append(((i, j - 1), ("ins", i, i, "", other, 0)))
    return back


def graph(
    back: dict[Node, list[tuple[Node, Step]]], end: Node
) -> tuple[set[Node], dict[Arc, Step]]:
    """Return the nodes and arcs that are reachable backward from the end."""
    nodes, edits, waiting = set(), {}, [end]
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        nodes.add(node)
        for before, step in back.get(node, ()):
            edits[before, node] = step
            waiting.append(before)
    return nodes, edits


def joined(first: Step, second: Step) -> Step:
    """Return the concatenation of two steps."""
    kinds = {first[0], second[0]}
    kind = kinds.pop() if len(kinds) == 1 else "sub"
    words = " ".join(filter(None, (first[3], second[3])))
    correction = " ".join(filter(None, (first[4], second[4])))
    return kind, first[1], second[2], words, correction, first[5] + second[5]


def arcs(
    source: list[str], output: list[str], unchanged: int
) -> tuple[list[Node], list[Arc], dict[Arc, float], dict[Arc, Step]]:
    """Return the transitive lattice: nodes, arcs (with repetitions), lengths and edits."""
    end = (len(source), len(output))
    first_nodes, first = graph(table(source, output, 1), end)
    second_nodes, second = graph(table(source, output, 2), end)
    nodes = sorted(first_nodes | second_nodes)
    every = sorted([*first, *second])
    edits = {**first, **second}
    length: dict[Arc, float] = dict.fromkeys(edits, 1)
    for middle in nodes:
        for before in nodes:
            if (before, middle) not in edits:
                continue
            for after in nodes:
                if (middle, after) not in edits:
                    continue
                both = length[before, middle] + length[middle, after]
                if both < length.get((before, after), inf):
                    edit = joined(edits[before, middle], edits[middle, after])
                    if edit[5] <= unchanged:
                        every.append((before, after))
                        length[before, after] = both
                        edits[before, after] = edit
    for arc in every:  # changed during the iteration, as in the authors' script
        if edits[arc][0] == "noop" and length[arc] > 1:
            every.remove(arc)
            length[arc] = inf
            del edits[arc]
    return nodes, every, length, edits


def fits(edit: Step, gold: Gold) -> bool:
    """Return True if an edit equals a gold edit."""
    return edit[1:4] == tuple(gold[:3]) and edit[4] in gold[3]


def weights(
    every: list[Arc], length: dict[Arc, float], edits: dict[Arc, Step], golds: Sequence[Gold]
) -> dict[Arc, float]:
    """Return the weights of the arcs: large negative weights for gold edits, else their lengths."""
    found = dict(length)
    spans: dict[tuple[int, int], list[Arc]] = {}
    for arc in every:
        spans.setdefault((edits[arc][1], edits[arc][2]), []).append(arc)
    for span in sorted(spans):
        here = sorted(spans[span])
        wanted = [gold for gold in golds if (gold[0], gold[1]) == span]
        if span[0] == span[1]:
            insertions(here, wanted, found, edits, -len(every))
            continue
        for arc in here:
            if any(fits(edits[arc], gold) for gold in wanted):
                found[arc] = -len(every)
            elif edits[arc][0] != "noop":
                found[arc] += SMALL
    return found


def insertions(
    here: list[Arc],
    wanted: list[Gold],
    found: dict[Arc, float],
    edits: dict[Arc, Step],
    low: int,
) -> None:
    """Weigh insertions at one position, alternating between both ends; a gold edit counts once."""
    left, right, first, last = 0, len(here) - 1, 0, len(wanted) - 1
    at = left
    while left <= right:
        from_left = at == left
        arc = here[at]
        order = range(first, last + 1)
        chosen = next(
            (i for i in (order if from_left else reversed(order)) if fits(edits[arc], wanted[i])),
            None,
        )
        if chosen is not None:
            found[arc] = low
            if from_left:
                first = chosen + 1
                left += 1
                while left < len(here) and here[left][0] != arc[1]:
                    found[here[left]] += SMALL
                    left += 1
                at = left
            else:
                last = chosen - 1
                right -= 1
                while right >= 0 and here[right][1] != arc[0]:
                    found[here[right]] += SMALL
                    right -= 1
                at = right
            continue
        found[arc] += SMALL
        if from_left:
            left += 1
            at = right
        else:
            right -= 1
            at = left


def best_path(
    nodes: list[Node], every: list[Arc], weight: dict[Arc, float], edits: dict[Arc, Step]
) -> list[Step]:
    """Return the edits on the shortest path."""
    distance: dict[Node, float] = dict.fromkeys(nodes, inf)
    distance[0, 0] = 0
    came: dict[Node, Node] = {}
    for _ in range(len(nodes) - 1):
        for arc in every:
            before, after = arc
            if distance[before] + weight[arc] < distance[after]:
                distance[after] = distance[before] + weight[arc]
                came[after] = before
    node, path = nodes[-1], []
    while node != (0, 0):
        step = edits[came[node], node]
        if step[0] != "noop":
            path.append(step)
        node = came[node]
    return path[::-1]


def matched(path: list[Step], golds: Sequence[Gold]) -> int:
    """Count the gold edits on the path in order. An edit counts for every gold edit it equals."""
    count = first = 0
    for edit in path:
        for number in range(first, len(golds)):
            if fits(edit, golds[number]):
                count, first = count + 1, number + 1
    return count


def f_score(correct: float, proposed: float, gold: float, beta: float) -> float:
    """Return the F score of total counts."""
    below = beta * beta * gold + proposed
    if below == 0:
        return 1.0 if correct == 0 else 0.0
    return (1 + beta * beta) * correct / below


def counts(
    sources: Sequence[str],
    outputs: Sequence[str],
    golds: Sequence[dict[int, list[Gold]]],
    unchanged: int = 2,
    beta: float = 0.5,
) -> list[tuple[int, int, int]]:
    """Return the counts of correct, proposed and gold edits of each sentence."""
    sums, chosen = (0, 0, 0), []
    for source, output, annotators in zip(sources, outputs, golds, strict=True):
        lattice = arcs(source.split(), output.split(), unchanged)
        nodes, every, length, edits = lattice
        best: tuple[int, int, int] = (0, 0, 0)
        top, most, least = -1.0, -1.0, inf
        for gold in annotators.values():
            path = best_path(nodes, every, weights(every, length, edits, gold), edits)
            here = (matched(path, gold), len(path), len(gold))
            right, made, there = (a + b for a, b in zip(sums, here, strict=True))
            f, costs = f_score(right, made, there, beta), made + beta * beta * there
            if f > top or (f == top and (right > most or (right == most and costs < least))):
                best, top, most, least = here, f, right, costs
        sums = (sums[0] + best[0], sums[1] + best[1], sums[2] + best[2])
        chosen.append(best)
    return chosen
