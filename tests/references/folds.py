"""The ways to put buckets into folds, by plain loops."""

from collections.abc import Iterator, Mapping

N_BUCKETS, N_FOLDS, N_WAYS = 64, 8, 8


def make_partitions(counts: Mapping[int, float]) -> Iterator[dict[int, int]]:
    """The fold of each bucket, for each way: largest first, eight at a time, there and back."""
    order = sorted(range(N_BUCKETS), key=lambda bucket: (-counts.get(bucket, 0), bucket))
    for way in range(N_WAYS):
        folds = {}
        for position, bucket in enumerate(order):
            turn, place = divmod(position, N_FOLDS)
            if turn % 2 == 1:
                place = N_FOLDS - 1 - place
            folds[bucket] = (place + way * turn) % N_FOLDS
        yield folds
