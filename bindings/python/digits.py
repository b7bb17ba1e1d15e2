# SPDX-License-Identifier: BSD-3-Clause
"""digits.py - data-parallel training with numpy: tests/examples/digits.c in Python, with the same network and steps.

    coll run -n 4 python3 digits.py [DIRECTORY OF THE TWO FILES [STEPS]]

Every rank holds the same network and computes the gradient on its share of each batch; one allreduce adds up the gradients.
"""
import os
import sys

import numpy as np

if __name__ == "__main__":  # the installed package: that beside this file is its source
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
import coll  # noqa: E402

PIXELS, HIDDEN, CLASSES = 14 * 14, 64, 10
DIGITS, TRAIN, BATCH, STEPS = 2000, 1600, 160, 200
SIZES = (HIDDEN * PIXELS, HIDDEN, CLASSES * HIDDEN, CLASSES)


def read(folder):
    with open(os.path.join(folder, "digits-images.idx3-ubyte"), "rb") as file:
        images = np.frombuffer(file.read()[16:], "u1").reshape(DIGITS, PIXELS)
    with open(os.path.join(folder, "digits-labels.idx1-ubyte"), "rb") as file:
        labels = np.frombuffer(file.read()[8:], "u1")
    return images.astype("f4"), labels


def parts(weights):
    """The four arrays of the network, in the one array that an allreduce adds up."""
    w1, b1, w2, b2 = np.split(weights, np.cumsum(SIZES)[:-1])
    return w1.reshape(HIDDEN, PIXELS), b1, w2.reshape(CLASSES, HIDDEN), b2


def start():
    """The first weights: the same numbers on all ranks."""
    weights, random = np.empty(sum(SIZES), "f4"), 1
    for i in range(len(weights)):
        random = (random * 1664525 + 1013904223) % 2**32
        weights[i] = ((random >> 8) / 2**24 - 0.5) * 0.3
    return weights


def forward(weights, images):
    w1, b1, w2, b2 = parts(weights)
    hidden = np.maximum(images @ w1.T + 255 * b1, 0) / 255
    score = np.exp(np.minimum(hidden @ w2.T + b2, 80))
    return hidden, score / score.sum(axis=1, keepdims=True)


def backward(weights, images, labels, gradient):
    """The gradient on some pictures."""
    gradient[:] = 0
    w1, b1, w2, b2 = parts(gradient)
    hidden, delta = forward(weights, images)
    delta[np.arange(len(labels)), labels] -= 1
    d = (delta @ parts(weights)[2]) * (hidden > 0)
    w1 += d.T @ images / 255
    b1 += d.sum(axis=0)
    w2 += delta.T @ hidden
    b2 += delta.sum(axis=0)


def train(comm, images, labels, steps):
    weights = start()
    speed = np.zeros_like(weights)
    gradient = comm.empty(weights.shape, weights.dtype)  # memory from which the ranks send fastest
    for step in range(steps):
        first = step * BATCH % TRAIN
        mine = slice(first + BATCH * comm.rank // comm.size, first + BATCH * (comm.rank + 1) // comm.size)
        backward(weights, images[mine], labels[mine], gradient)
        comm.allreduce(gradient, out=gradient)
        speed = np.float32(0.9) * speed - np.float32(0.3 / BATCH) * gradient
        weights += speed
    return weights


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../../tests/examples/data")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    images, labels = read(folder)
    with coll.init() as comm:
        weights = train(comm, images, labels, steps)
        mine = slice(TRAIN + comm.rank, DIGITS, comm.size)
        right = comm.allreduce(int(np.sum(forward(weights, images[mine])[1].argmax(axis=1) == labels[mine])))
        all_weights = comm.allgather(weights)
        assert all(np.array_equal(weights, other) for other in all_weights), "the ranks hold different weights"
        if comm.rank == 0:
            print(f"held-out accuracy {right / (DIGITS - TRAIN):.4f} on {DIGITS - TRAIN} digits, {comm.size} ranks, "
                  f"backend {comm.backend}")


if __name__ == "__main__":
    main()
