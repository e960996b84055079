//! Explores vectors of words, lines and contexts.
//!
//! [`Embeddings`] holds the word vectors of a file or of a model's vocabulary: it finds neighbors
//! and analogies, and which of its tokens are frequent words ([`WholeWord`]); [`project`] with
//! [`Plot`] draws them on a plane; [`Company`] shows how attention over them changes a word.
//! [`Sentences`] compares whole lines. [`Bank`] compares a word in its sentence with the words of
//! other sentences, layer by layer. The last two take
//! the states of a model from a [`Reader`](polyglow_predict::states::Reader).

mod company;
mod context;
mod directions;
mod neighbors;
mod plot;
mod projection;
mod sentences;
mod vectors;
mod whole_words;

pub use company::{Attending, Company, Round};
pub use context::{Bank, ContextNeighbor, LayerNeighbors};
pub use directions::Directions;
pub use neighbors::Neighbor;
pub use plot::{Groups, Plot};
pub use projection::{Projection, project};
pub use sentences::{NearLine, Pool, Sentences};
pub use vectors::Embeddings;
pub use whole_words::WholeWord;

use polyglow_predict::error::with_hint;
use polyglow_predict::suggestion::alike;
use polyglow_train::TrainError;

/// A word without the punctuation around it; all of it if it is nothing but punctuation.
fn bare(word: &str) -> &str {
    let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    if bare.is_empty() { word } else { bare }
}

/// Adds a hint to an error about a `word` that is not among the `words` of a text.
fn with_known<'a>(
    error: TrainError,
    word: &str,
    words: impl Iterator<Item = &'a str>,
) -> TrainError {
    match alike(word, words, 1).first() {
        Some(known) => with_hint(error, format!("did you mean `{known}`?")),
        None => with_hint(
            error,
            "words are what spaces divide, without punctuation around them",
        ),
    }
}

/// The mean of some vectors; zeros if there is none.
fn mean<'a>(vectors: impl IntoIterator<Item = &'a [f32]>, dim: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dim];
    let mut count = 0_usize;
    for vector in vectors {
        add(&mut mean, vector);
        count += 1;
    }
    for value in &mut mean {
        *value /= count.max(1) as f32;
    }
    mean
}

/// Adds `vector` to `sum`.
fn add(sum: &mut [f32], vector: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += value;
    }
}
