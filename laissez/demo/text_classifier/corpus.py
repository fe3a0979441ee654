"""Support tickets from a small grammar, so that the classifier has something to learn and nothing to download."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORDS = """
compute: kernel tensor driver cuda core thread crash batch epoch gradient memory cache clock fan
storage: disk volume bucket snapshot backup file folder quota inode mount restore archive block shard
network: packet latency switch route port firewall cable address gateway tunnel socket proxy subnet link
billing: invoice refund price card credit tax receipt budget charge currency account month discount plan
"""
FILLERS = """
please help the my our a is was after before since again slow broken missing wrong today yesterday cannot
does not why when team production urgent new old last first every job run
"""
DEPARTMENTS = {name: words.split() for name, words in (line.split(": ") for line in WORDS.strip().splitlines())}
SHARED = FILLERS.split()
VOCABULARY = sorted({word for words in DEPARTMENTS.values() for word in words} | set(SHARED))
LABELS = list(DEPARTMENTS)
WORDS_PER_TICKET = 14

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Tickets:
    """`words`: tickets x WORDS_PER_TICKET word ids; `labels`: one department id per ticket."""

    words: Ids
    labels: Ids


def write_tickets(count: int, seed: int) -> Tickets:
    """`count` tickets; each word is shared, of the ticket's own department, or (a distraction) of any department."""
    rng = np.random.default_rng(seed)
    index = {word: number for number, word in enumerate(VOCABULARY)}
    shared = np.array([index[word] for word in SHARED])
    own = np.array([[index[word] for word in words] for words in DEPARTMENTS.values()])
    labels = rng.integers(len(LABELS), size=count)
    shape = (count, WORDS_PER_TICKET)
    mood = rng.random(shape)
    department = np.where(mood < 0.22, labels[:, None], rng.integers(len(LABELS), size=shape))
    topical = own[department, rng.integers(own.shape[1], size=shape)]
    words = np.where(mood < 0.42, topical, shared[rng.integers(len(shared), size=shape)])
    return Tickets(words=words.astype(np.int64), labels=labels.astype(np.int64))


def pretrained_embeddings(dimensions: int, seed: int) -> NDArray[np.float64]:
    """Word vectors from co-occurrences in unlabelled tickets (positive PMI, truncated SVD): the pre-trained part."""
    words = write_tickets(4000, seed).words
    present = np.zeros((len(words), len(VOCABULARY)))
    np.put_along_axis(present, words, 1.0, axis=1)
    together = present.T @ present / len(words)
    alone = np.diag(together)
    pmi = np.log(np.maximum(together, 1e-9) / np.outer(alone, alone))
    left, strength, _ = np.linalg.svd(np.maximum(pmi, 0.0))
    vectors: NDArray[np.float64] = left[:, :dimensions] * np.sqrt(strength[:dimensions])
    return vectors
