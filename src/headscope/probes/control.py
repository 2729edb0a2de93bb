"""Control tasks (Hewitt and Liang 2019): how much of a score could be the probe's own doing.

Every word type is given a behaviour at random: its words hang on the first word of the sentence, on
the last one, or on ROOT. (Theirs is the word itself in place of ROOT, which is no candidate here.)
The task has nothing to do with syntax; a probe that learns it learns words by heart. Selectivity is
the UAS minus the accuracy on the control task.
"""

from dataclasses import replace

import numpy as np

from headscope.data.example import stable_hash
from headscope.data.tree import ROOT
from headscope.probes.treebank import NO_HEAD, ProbeTreebank, Sentence

__all__ = ["control_treebank", "give_control_heads"]

FIRST, LAST, ON_ROOT = range(3)


def give_control_heads(sentence: Sentence, seed: int = 0) -> Sentence:
    """The sentence with the heads of the control task; they make a tree.

    The first word hangs on ROOT, so that the last one may hang on the first.
    """
    behaviours = [stable_hash(f"{seed} {word.lower()}") % 3 for word in sentence.words]
    last = len(sentence) - 1
    heads = np.full(len(sentence), ROOT)
    for word in range(1, len(sentence)):
        if behaviours[word] == FIRST:
            heads[word] = 0
        elif behaviours[word] == LAST and word != last:
            heads[word] = last
    heads[sentence.heads == NO_HEAD] = NO_HEAD  # what is not scored is not scored here
    return replace(sentence, heads=heads)


def control_treebank(treebank: ProbeTreebank, seed: int = 0) -> ProbeTreebank:
    """The same sentences with the heads of the control task."""
    return replace(
        treebank, sentences=[give_control_heads(sentence, seed) for sentence in treebank.sentences]
    )
