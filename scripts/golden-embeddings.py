#!/usr/bin/env python3
"""Writes a file of word vectors, and what gensim and NumPy make of it, for the tests of `polyglow embeddings`.

    pip install gensim==4.4.0
    python3 scripts/golden-embeddings.py     # writes crates/polyglow/tests/golden/vectors.txt and embeddings.json

The words are those of a grid, so that analogies have an answer: `w23` is row 2 plus column 3, with noise.
"""

import json
import pathlib

import gensim
import numpy
from gensim.models import KeyedVectors

GOLDEN = pathlib.Path(__file__).parent.parent / "crates/polyglow/tests/golden"
ROWS, COLUMNS, DIM, COUNT = 6, 8, 12, 7
QUERIES = ["w00", "w37", "w52"]
# Sentences with the word that is looked at, a scale (or none for 1 / sqrt(dim)), and rounds of attention.
SENTENCES = [("w00 w37 w52 w31", "w37", None, 1), ("w11 w12 w51 w11", "w51", 0.05, 3)]
ANALOGIES = [("w00", "w03", "w20"), ("w51", "w11", "w57"), ("w32", "w45", "w04")]


def main():
    random = numpy.random.default_rng(7)
    rows, columns = random.normal(size=(ROWS, DIM)), random.normal(size=(COLUMNS, DIM))
    with (GOLDEN / "vectors.txt").open("w") as file:
        print(ROWS * COLUMNS, DIM, file=file)
        for row in range(ROWS):
            for column in range(COLUMNS):
                vector = rows[row] + columns[column] + random.normal(scale=0.3, size=DIM)
                print(f"w{row}{column}", *(f"{value:.4f}" for value in vector), file=file)
    vectors = KeyedVectors.load_word2vec_format(GOLDEN / "vectors.txt")
    nearest = {word: vectors.most_similar(word, topn=COUNT) for word in QUERIES}
    analogies = [
        {"words": [a, b, c], "found": vectors.most_similar(positive=[b, c], negative=[a], topn=COUNT)}
        for a, b, c in ANALOGIES
    ]
    attended = []
    for text, word, scale, rounds in SENTENCES:
        sentence = text.split()
        states = numpy.stack([vectors[word] for word in sentence]).astype(float)
        place = sentence.index(word)
        found = []
        for _ in range(rounds):
            scores = states @ states.T * (scale or 1 / DIM**0.5)
            weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            states = weights @ states
            near = [pair for pair in vectors.similar_by_vector(states[place].astype("float32"), topn=COUNT + 1) if pair[0] != word]
            found.append({"weights": weights[place].round(9).tolist(), "neighbors": near[:COUNT]})
        attended.append({"text": text, "word": word, "scale": scale, "rounds": found})
    units = vectors.get_normed_vectors().astype(float)
    centered = units - units.mean(axis=0)
    _, sizes, components = numpy.linalg.svd(centered, full_matrices=False)
    components = [row * numpy.sign(row[numpy.abs(row).argmax()]) for row in components[:2]]
    golden = {
        "gensim": gensim.__version__,
        "nearest": nearest,
        "analogies": analogies,
        "attended": attended,
        "points": (centered @ numpy.stack(components, axis=1)).round(7).tolist(),
        "explained": (sizes[:2] ** 2 / (sizes**2).sum()).round(7).tolist(),
    }
    (GOLDEN / "embeddings.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
