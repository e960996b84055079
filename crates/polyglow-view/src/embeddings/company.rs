//! Attention over word vectors that were not trained for it: how the words around a word change its
//! vector.

use std::path::Path;

use maud::{Markup, html};
use polyglow_predict::error::usage;
use polyglow_train::{Result, TrainError};
use serde::Serialize;

use super::vectors::Entry;
use super::{Embeddings, Neighbor, bare, plot, project, with_known};
use crate::document::{document, note};
use crate::drawing::{Format, Shape, write};

/// Options of attention over word vectors.
#[derive(Clone, Copy, Debug)]
pub struct Attending {
    /// The factor of dot products; `None` is `1 / sqrt(dim)` (Vaswani et al., 2017,
    /// section 3.2.1).
    pub scale: Option<f64>,
    /// The number of rounds, each of which attends over the vectors that the one before gave.
    pub rounds: usize,
    /// The number of nearest words to return for each round.
    pub count: usize,
}

/// A sentence of word vectors, and one of its words before and after attention.
#[derive(Clone, Debug, Serialize)]
pub struct Company {
    /// The words of the sentence that have a vector.
    pub words: Vec<String>,
    /// The words that have none, and are left out.
    pub unknown: Vec<String>,
    /// The index in `words` of the word that is observed; `place` in JSON.
    #[serde(rename = "place")]
    pub index: usize,
    /// The factor of dot products that was used.
    pub scale: f64,
    /// The observed word before the first round and after each.
    pub rounds: Vec<Round>,
    /// The vectors of the words in the file, `[words, dim]`.
    #[serde(skip)]
    before: Vec<Vec<f64>>,
    /// The vectors of the words after the last round, `[words, dim]`.
    #[serde(skip)]
    after: Vec<Vec<f64>>,
    /// The neighbors of all rounds that are not in the sentence, with their vectors, for the
    /// picture.
    #[serde(skip)]
    landmarks: Vec<(String, Vec<f32>)>,
}

/// The observed word after a number of rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// The number of rounds; 0 stands for the vector of the file.
    pub round: usize,
    /// The attention weight of each word of the sentence in this round, in the order of the words;
    /// empty before the first round.
    pub weights: Vec<f64>,
    /// The nearest words of the file, without the word itself.
    pub neighbors: Vec<Neighbor>,
}

impl Embeddings {
    /// Moves each word of a text towards the words that it has much in common with, by attention
    /// without learned weights: `X <- softmax(scale X X^T) X` (Vaswani et al., 2017, formula 1,
    /// with queries, keys and values all `X`). Returns the neighbors of `word` in each round.
    ///
    /// Words are split at whitespace, and lose the punctuation around them; a word that the file has
    /// in lower case only is looked up so.
    ///
    /// ```
    /// use polyglow_data::word_vectors::WordVectors;
    /// use polyglow_view::embeddings::{Attending, Embeddings};
    ///
    /// let words = ["bank", "river", "money", "loan", "shore"].map(str::to_owned).to_vec();
    /// let values = vec![2.0, 2.0, 0.0, 3.0, 3.0, 0.0, 4.0, 0.0, 0.0, 4.0];
    /// let embeddings = Embeddings::from_file(WordVectors { words, dim: 2, values, repeated: 0 });
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
        let scale = attending.scale.unwrap_or(1.0 / (self.dim as f64).sqrt());
        let sentence = self.sentence(text, word)?;
        if !scale.is_finite() {
            return Err(usage(TrainError::new(format!(
                "the scale {scale} is not a finite number"
            ))));
        }
        let Sentence {
            words,
            unknown,
            vectors: before,
            index,
            own,
        } = sentence;

        let mut after = before.clone();
        let mut rounds = Vec::new();
        for round in 0..=attending.rounds {
            let mut weights = Vec::new();
            if round > 0 {
                let all_weights = attention_weights(&after, scale);
                after = weighted_sums(&all_weights, &after);
                weights.clone_from(&all_weights[index]);
            }
            let vector: Vec<f32> = after[index].iter().map(|&value| value as f32).collect();
            rounds.push(Round {
                round,
                weights,
                neighbors: self.near(&vector, &own, attending.count),
            });
        }
        let landmarks = self.landmarks(&words, &rounds)?;
        Ok(Company {
            words,
            unknown,
            index,
            scale,
            rounds,
            before,
            after,
            landmarks,
        })
    }

    /// Looks up the words of a text, among which `word` must be.
    fn sentence(&self, text: &str, word: &str) -> Result<Sentence> {
        let mut words = Vec::new();
        let mut unknown = Vec::new();
        let mut vectors: Vec<Vec<f64>> = Vec::new();
        let mut observed = None;
        for spelled in text.split_whitespace() {
            let bare = bare(spelled);
            let entry = self.find(bare).or_else(|_| self.find(&bare.to_lowercase()));
            let Ok(Entry { vector, indices }) = entry else {
                unknown.push(bare.to_owned());
                continue;
            };
            if observed.is_none() && bare == word {
                observed = Some((words.len(), indices));
            }
            words.push(bare.to_owned());
            vectors.push(vector.into_iter().map(f64::from).collect());
        }
        let Some((index, own)) = observed else {
            return Err(no_such_word(word, &words, &unknown));
        };
        Ok(Sentence {
            words,
            unknown,
            vectors,
            index,
            own,
        })
    }

    /// The neighbors of all rounds that are not in the sentence, each once, with their vectors.
    fn landmarks(&self, words: &[String], rounds: &[Round]) -> Result<Vec<(String, Vec<f32>)>> {
        let mut landmarks: Vec<(String, Vec<f32>)> = Vec::new();
        for Neighbor { word, .. } in rounds.iter().flat_map(|round| &round.neighbors) {
            if !words.contains(word) && landmarks.iter().all(|(known, _)| known != word) {
                landmarks.push((word.clone(), self.find(word)?.vector));
            }
        }
        Ok(landmarks)
    }
}

/// The known words of a text, with the one that is observed.
struct Sentence {
    words: Vec<String>,
    unknown: Vec<String>,
    /// `[words, dim]`. Attention is computed in `f64`, so that many rounds do not add up rounding
    /// errors.
    vectors: Vec<Vec<f64>>,
    /// The index in `words` of the observed word.
    index: usize,
    /// The indices in the file of the observed word, which is no neighbor of its own.
    own: Vec<usize>,
}

/// The attention weights `[words, words]` of vectors as queries over the same vectors as keys.
fn attention_weights(vectors: &[Vec<f64>], scale: f64) -> Vec<Vec<f64>> {
    let mut weights = Vec::with_capacity(vectors.len());
    for query in vectors {
        let scores = vectors.iter().map(|key| scale * dot(query, key));
        weights.push(softmax(&scores.collect::<Vec<f64>>()));
    }
    weights
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(l, r)| l * r).sum()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    // The largest is subtracted, so that no exponential overflows; it cancels.
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}

/// The sum of the values for each row of weights.
fn weighted_sums(weights: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut sums = Vec::with_capacity(weights.len());
    for row in weights {
        let mut sum = vec![0.0; values[0].len()];
        for (weight, value) in row.iter().zip(values) {
            for (sum, value) in sum.iter_mut().zip(value) {
                *sum += weight * value;
            }
        }
        sums.push(sum);
    }
    sums
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
    /// Draws the sentence on the plane on which its vectors, and those of the nearest words, differ
    /// most: an arrow for each word, from its vector in the file to that after the last round.
    /// `title` is the heading of the page.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, title: &str, format: Format, path: &Path) -> Result<()> {
        let names = self.names();
        let drawing = plot::drawing(self.shapes(&names));
        match format {
            Format::Html => {
                let body = self.body(title, &names);
                let title = format!("attention: {title}");
                write(path, document(&title, plot::STYLE, &body))
            }
            Format::Svg => write(path, drawing.svg()),
            Format::Png => write(path, drawing.png()?),
        }
    }

    /// The names of the points: the words of the sentence, then the landmarks.
    fn names(&self) -> Vec<String> {
        let landmarks = self.landmarks.iter().map(|(word, _)| word);
        self.words.iter().chain(landmarks).cloned().collect()
    }

    /// Arrows for the words of the sentence, then a dot for each name.
    fn shapes<'a>(&self, names: &'a [String]) -> Vec<Shape<'a>> {
        // One projection of all, so that starts and ends of arrows lie on the same plane.
        let mut vectors = flat(&self.before);
        for (_, vector) in &self.landmarks {
            vectors.extend(vector);
        }
        vectors.extend(flat(&self.after));
        let projection = project(&vectors, self.before[0].len());
        let points = plot::positions(&projection.points);
        let (before, after) = points.split_at(names.len());

        let mut shapes = Vec::new();
        for (&from, &to) in before.iter().zip(after) {
            shapes.push(Shape::Arrow { from, to });
        }
        for (&[x, y], name) in before.iter().zip(names) {
            shapes.push(Shape::Point {
                x,
                y,
                name,
                group: 0,
            });
        }
        shapes
    }

    fn body(&self, title: &str, names: &[String]) -> Markup {
        let word = &self.words[self.index];
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

    /// Formats the attention weights of a round, the largest first: `river 0.410  bank 0.380`.
    pub fn taken(&self, round: &Round) -> String {
        let weights = round.weights.iter().copied();
        let mut taken: Vec<(&String, f64)> = self.words.iter().zip(weights).collect();
        taken.sort_by(|left, right| right.1.total_cmp(&left.1));
        let texts: Vec<String> = taken
            .iter()
            .map(|(word, weight)| format!("{word} {weight:.3}"))
            .collect();
        texts.join("  ")
    }
}

/// The values of some vectors, one vector after the other.
fn flat(vectors: &[Vec<f64>]) -> Vec<f32> {
    let values = vectors.iter().flatten();
    values.map(|&value| value as f32).collect()
}
