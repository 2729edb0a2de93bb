"""The terms of the report, each explained once; `docs/glossary.md` is written from them."""

__all__ = ["GLOSSARY", "READING", "write_page"]

READING = (
    "A head is named by layer and head, both counted from 1: 5-4 is head 4 of layer 5. Every head "
    "that is named is a link to its card.",
    "Numbers in square brackets are 95 % intervals over documents: how far the number would move "
    "with other documents of the same kind. An interval needs at least two documents.",
    "Accuracies of best heads are held out: the head is chosen on some documents and scored on "
    "the others. Compare them with their baseline, not with 0.",
    "A claim holds if the whole interval passes the threshold. If the interval includes the "
    "threshold, the claim is undecided. If the untrained model passes it too, the claim says "
    "nothing about training.",
    "Attention is not by itself an explanation. A large weight says where a head reads from, not "
    "that the model uses what it reads. Three measures add to it. Norm-weighted attention "
    "(--weights norm) scales each weight by the size of the vector it moves. Gradients (--also "
    "gradient) say how much the loss would change if a weight changed a little. Ablation (--also "
    "ablation) removes a head and measures what the model loses.",
    "A head that finds a relation need not be the only one, and the model may not need it: look "
    "at the ablation of the head before you call it responsible.",
)

GLOSSARY = {
    "Ablation": "Removing a head (its output set to zero or to its mean) and measuring what "
    "changes.",
    "Accuracy": "The share of cases in which the most attended word is the right one.",
    "Antecedent": "An earlier mention of the same person or thing.",
    "Attention head": "One of the parallel attention functions of a layer. 8-10 is head 10 of "
    "layer 8.",
    "Attention weight": "The share, from 0 to 1, that one token gives to another. The weights of "
    "a token add up to 1.",
    "Attention map": "All attention weights of a head on one text: a square of tokens by tokens.",
    "Baseline": "A score that needs no model, such as that of the best fixed offset.",
    "Behaviour": "What a head does with most of its attention, such as looking at the previous "
    "token. It must pass a threshold.",
    "Broad attention": "Attention spread over many tokens: over 78 % of the entropy of even "
    "attention.",
    "Card": "All that a run measured about one head.",
    "Claim": "A finding of the paper about BERT-base, tested on this model.",
    "Cluster": "A group of heads that attend alike.",
    "Coreference": "Two expressions that refer to the same person or thing.",
    "Dependency relation": "A labelled link between a word and its syntactic head, such as nsubj "
    "(subject) or det (determiner).",
    "Entropy": "How widely attention is spread, in nats. 0 is all attention on one token.",
    "Even attention": "The same weight on every token that a token may attend to; also called "
    "uniform attention.",
    "Gradient": "How much the loss changes when an attention weight changes a little.",
    "Held out": "Chosen on some documents and scored on others, so that the choice cannot "
    "flatter the score.",
    "Interval": "A 95 % interval over documents. It needs at least two documents.",
    "Jensen-Shannon divergence": "How different two distributions are: 0 is identical, 0.69 "
    "(ln 2) is disjoint.",
    "Mention": "A word or phrase that refers to someone or something.",
    "Nat": "The unit of entropy and divergence with natural logarithms. 1 nat is 1.44 bits.",
    "Norm-weighted attention": "Attention weights multiplied by the size of the vectors they "
    "move (Kobayashi et al. 2020).",
    "Offset": "A fixed distance in words: +1 is the next word, -1 the previous one.",
    "Probe": "A small classifier that is trained on the attention of all heads.",
    "Run": "One measurement of a model, kept in a folder with its tables and this page.",
    "Sink": "A token that receives the attention a head does not use, such as [SEP] or the first "
    "token.",
    "Special token": "A token that the tokenizer adds: [CLS] opens, [SEP] closes.",
    "Token": "A piece of text that the model reads: a word, or a part of one.",
    "Untrained model": "The same model with random weights but trained embeddings: what the "
    "architecture does by itself.",
    "Window": "A part of a long document that fits into the model.",
}


def write_page() -> str:
    """`docs/glossary.md`."""
    lines = [f"**{term}**\n: {meaning}" for term, meaning in GLOSSARY.items()]
    reading = [f"- {line}" for line in READING]
    return (
        "\n\n".join(["# Glossary", *lines, "## How to read the numbers", "\n".join(reading)]) + "\n"
    )
