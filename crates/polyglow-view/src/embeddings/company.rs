//! Attention over word vectors that nobody trained for it: how the words around a word move it.

use std::path::Path;

use maud::{Markup, html};
use polyglow_predict::error::usage;
use polyglow_train::{Result, TrainError};
use serde::Serialize;

use super::{Embeddings, Neighbor, bare, plot, project, with_known};
use crate::document::{document, note};
use crate::drawing::{Format, Shape, write};

/// How attention is computed.
#[derive(Clone, Copy, Debug)]
pub struct Attending {
    /// What dot products are multiplied by; `None` is `1 / sqrt(dim)` (Vaswani et al., 2017,
    /// section 3.2.1).
    pub scale: Option<f64>,
    /// How often: each time over the vectors that the time before gave.
    pub rounds: usize,
    /// Number of nearest words to find.
    pub count: usize,
}

/// A sentence of word vectors, and what attention makes of one of its words.
#[derive(Clone, Debug, Serialize)]
pub struct Company {
    /// The words of the sentence that have a vector.
    pub words: Vec<String>,
    /// Those that have none, and are left out.
    pub unknown: Vec<String>,
    /// The place in `words` of the word that is looked at.
    pub place: usize,
    /// What dot products were multiplied by.
    pub scale: f64,
    /// Before the first round and after each.
    pub rounds: Vec<Round>,
    /// The vectors of the words, `[words, dim]`, in the file and after the last round.
    #[serde(skip)]
    before: Vec<Vec<f64>>,
    #[serde(skip)]
    after: Vec<Vec<f64>>,
    /// Words that are near, with their vectors, for the picture.
    #[serde(skip)]
    landmarks: Vec<(String, Vec<f32>)>,
}

/// The word after so many rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Number of rounds; 0 is the vector of the file.
    pub round: usize,
    /// How much of each word of the sentence this round took, in the order of the words; empty
    /// before the first.
    pub weights: Vec<f64>,
    /// The nearest words of the file, without the word itself.
    pub neighbors: Vec<Neighbor>,
}

impl Embeddings {
    /// Moves each word of a text towards those that it has much in common with, by attention
    /// without weights to learn: `X <- softmax(scale X X^T) X` (Vaswani et al., 2017, formula 1,
    /// with queries, keys and values all `X`).
    ///
    /// Words are split at whitespace, and lose the punctuation around them; a word that is known in
    /// lower case only is that.
    ///
    /// ```
    /// use polyglow_data::word_vectors::WordVectors;
    /// use polyglow_view::embeddings::{Attending, Embeddings};
    ///
    /// let words = ["bank", "river", "money", "loan", "shore"].map(str::to_owned).to_vec();
    /// let values = vec![2.0, 2.0, 0.0, 3.0, 3.0, 0.0, 4.0, 0.0, 0.0, 4.0];
    /// let embeddings = Embeddings::of_file(WordVectors { words, dim: 2, values, repeated: 0 });
    /// let attending = Attending { scale: None, rounds: 1, count: 1 };
    ///
    /// let near = embeddings.in_company("The bank of the river", "bank", attending)?;
    /// assert_eq!(near.rounds[1].neighbors[0].word, "river");
    /// let near = embeddings.in_company("a bank lends money", "bank", attending)?;
    /// assert_eq!(near.rounds[1].neighbors[0].word, "money");
    /// # Ok::<(), polyglow_train::TrainError>(())
    /// ```
    ///
    /// # Errors
    /// The word is not in the text, or has no vector, or the scale is no finite number, which are
    /// usage errors.
    pub fn in_company(&self, text: &str, word: &str, attending: Attending) -> Result<Company> {
        let (mut words, mut unknown, mut before) = (Vec::new(), Vec::new(), Vec::<Vec<f64>>::new());
        let mut place = None;
        for spelled in text.split_whitespace() {
            let bare = bare(spelled);
            let Ok(found) = self.find(bare).or_else(|_| self.find(&bare.to_lowercase())) else {
                unknown.push(bare.to_owned());
                continue;
            };
            if place.is_none() && bare == word {
                place = Some((words.len(), found.places));
            }
            words.push(bare.to_owned());
            before.push(found.vector.iter().map(|&value| f64::from(value)).collect());
        }
        let Some((place, own)) = place else {
            return Err(no_such_word(word, &words, &unknown));
        };

        let scale = attending.scale.unwrap_or(1.0 / (self.dim as f64).sqrt());
        if !scale.is_finite() {
            return Err(usage(TrainError::new(format!(
                "the scale {scale} is not a finite number"
            ))));
        }
        let mut after = before.clone();
        let mut rounds = Vec::new();
        for round in 0..=attending.rounds {
            let mut weights = Vec::new();
            if round > 0 {
                let all;
                (after, all) = attend(&after, scale);
                weights.clone_from(&all[place]);
            }
            let vector: Vec<f32> = after[place].iter().map(|&value| value as f32).collect();
            rounds.push(Round {
                round,
                weights,
                neighbors: self.near(&vector, &own, attending.count),
            });
        }
        let mut landmarks: Vec<(String, Vec<f32>)> = Vec::new();
        for Neighbor { word, .. } in rounds.iter().flat_map(|round| &round.neighbors) {
            if !words.contains(word) && landmarks.iter().all(|(known, _)| known != word) {
                landmarks.push((word.clone(), self.find(word)?.vector));
            }
        }
        Ok(Company {
            words,
            unknown,
            place,
            scale,
            rounds,
            before,
            after,
            landmarks,
        })
    }
}

/// The context of each vector, and the weights `[words, words]` that it was summed with.
fn attend(vectors: &[Vec<f64>], scale: f64) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let weights: Vec<Vec<f64>> = vectors
        .iter()
        .map(|query| {
            let scores: Vec<f64> = vectors
                .iter()
                .map(|key| scale * query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>())
                .collect();
            // The largest is taken off, so that no exponential overflows; it cancels.
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exponentials: Vec<f64> =
                scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            exponentials
                .into_iter()
                .map(|exponential| exponential / sum)
                .collect()
        })
        .collect();
    let contexts = weights.iter().map(|weights| {
        let mut context = vec![0.0; vectors[0].len()];
        for (weight, value) in weights.iter().zip(vectors) {
            context
                .iter_mut()
                .zip(value)
                .for_each(|(sum, value)| *sum += weight * value);
        }
        context
    });
    (contexts.collect(), weights)
}

fn no_such_word(word: &str, words: &[String], unknown: &[String]) -> TrainError {
    if unknown.iter().any(|known| known == word) {
        return usage(TrainError::new(format!(
            "there is no vector for the word `{word}`"
        )));
    }
    let error = usage(TrainError::new(format!("the text has no word `{word}`")));
    with_known(error, word, words.iter().map(String::as_str))
}

impl Company {
    /// Draws the sentence on the plane on which its vectors, and the words near to the one that is
    /// looked at, differ most: an arrow for each word, from the vector of the file to that after
    /// the last round.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, title: &str, format: Format, path: &Path) -> Result<()> {
        let names: Vec<String> = self
            .words
            .iter()
            .chain(self.landmarks.iter().map(|(word, _)| word))
            .cloned()
            .collect();
        let shapes = self.shapes(&names);
        let drawing = plot::drawing(shapes);
        match format {
            Format::Html => write(
                path,
                document(
                    &format!("attention: {title}"),
                    plot::STYLE,
                    &self.body(title, &names),
                ),
            ),
            Format::Svg => write(path, drawing.svg()),
            Format::Png => write(path, drawing.png()?),
        }
    }

    fn shapes<'a>(&self, names: &'a [String]) -> Vec<Shape<'a>> {
        let flat = |state: &[Vec<f64>]| {
            state
                .iter()
                .flatten()
                .map(|&value| value as f32)
                .collect::<Vec<_>>()
        };
        let mut vectors = flat(&self.before);
        self.landmarks
            .iter()
            .for_each(|(_, vector)| vectors.extend(vector));
        vectors.extend(flat(&self.after));
        let points = plot::places(&project(&vectors, self.before[0].len()).points);
        let (before, after) = points.split_at(names.len());
        let arrows = before
            .iter()
            .zip(after)
            .map(|(&from, &to)| Shape::Arrow { from, to });
        let dots = before
            .iter()
            .zip(names)
            .map(|(&[x, y], name)| Shape::Point {
                x,
                y,
                name,
                group: 0,
            });
        arrows.chain(dots).collect()
    }

    fn body(&self, title: &str, names: &[String]) -> Markup {
        let word = &self.words[self.place];
        html! {
            h1 { (title) }
            p {
                "Attention without weights to learn: every word of the sentence becomes a mean of all, weighted by the softmax of "
                "its dot products with them times " (format!("{:.4}", self.scale)) ". Arrows lead from the vectors of the file to "
                "those after " (self.rounds.len() - 1) " rounds; the words without an arrow are those that are or come near to “"
                (word) "”. The plane is that of the first two principal components."
            }
            (note(names))
            div.wide { (plot::picture(title, &plot::drawing(self.shapes(names)))) }
            table {
                tr { th { "round" } th { "takes from" } th { "nearest words" } }
                @for round in &self.rounds {
                    tr {
                        td { (round.round) }
                        td { (self.taken(round)) }
                        td { @for near in &round.neighbors { (near.word) " " (format!("{:.3}", near.cosine)) br; } }
                    }
                }
            }
        }
    }

    /// How much of each word a round took, the most first: `river 0.41  bank 0.38`.
    pub fn taken(&self, round: &Round) -> String {
        let mut taken: Vec<(&str, f64)> = self
            .words
            .iter()
            .map(String::as_str)
            .zip(round.weights.iter().copied())
            .collect();
        taken.sort_by(|left, right| right.1.total_cmp(&left.1));
        taken
            .iter()
            .map(|(word, weight)| format!("{word} {weight:.3}"))
            .collect::<Vec<_>>()
            .join("  ")
    }
}
