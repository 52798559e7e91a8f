"""A classifier of handwritten digits in plain NumPy that survives being killed.

    lastgood run --job runs/digits -- python examples/numpy_loop.py

Kill it whenever you like, start it again with the same line: it continues from its last good checkpoint
and ends with the same weights, bit for bit, as a run that was never disturbed.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

import lastgood

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--job", default="runs/digits", help="job directory, where `lastgood run` does not give one")
options = parser.parse_args()

# Data: 1,797 images of 8 x 8 pixels, shipped with scikit-learn. The last 297 are kept for testing.
images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype(np.float32)
train_x, train_y, test_x, test_y = images[:1500], labels[:1500], images[1500:], labels[1500:]

# Model: 64 - 256 - 10 with dropout, trained by gradient descent with momentum.
rng = np.random.default_rng(seed=1)
weights = {
    "w1": rng.normal(0, 0.15, (64, 256)).astype(np.float32),
    "b1": np.zeros(256, np.float32),
    "w2": rng.normal(0, 0.08, (256, 10)).astype(np.float32),
    "b2": np.zeros(10, np.float32),
}
velocity = {name: np.zeros_like(value) for name, value in weights.items()}


def train_step(x: np.ndarray, y: np.ndarray, learning_rate: float) -> float:
    kept = (rng.random((len(x), 256)) > 0.2).astype(np.float32) / np.float32(0.8)
    hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0) * kept
    scores = hidden @ weights["w2"] + weights["b2"]
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[np.arange(len(y)), y] + 1e-12).mean()

    error = probabilities
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = (error @ weights["w2"].T) * (hidden > 0) * kept
    gradients = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
    for name, gradient in gradients.items():
        # In place: lastgood holds on to these very arrays.
        velocity[name] *= 0.9
        velocity[name] += gradient
        weights[name] -= learning_rate * velocity[name]
    return float(loss)


def accuracy() -> float:
    hidden = np.maximum(test_x @ weights["w1"] + weights["b1"], 0)
    return float(((hidden @ weights["w2"] + weights["b2"]).argmax(1) == test_y).mean())


sampler = lastgood.ResumableSampler(len(train_x), batch_size=16, seed=1)
run = lastgood.Run(
    {"weights": weights, "velocity": velocity, "rng": rng},
    job=options.job,
    every=100,
    keep=lastgood.Keep(last=2, best=1, metric="accuracy"),
    config={"batch_size": 16, "learning_rate": 0.02},
)
for epoch in run.epochs(options.epochs):
    for batch in run.batches(sampler):
        loss = train_step(train_x[batch], train_y[batch], learning_rate=0.02)
        run.log(loss=loss)
    run.log(accuracy=accuracy())
print(f"accuracy on unseen digits after {run.step} steps: {accuracy():.2%}")
