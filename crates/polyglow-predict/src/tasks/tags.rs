//! Tags of words: tagging and its scores with a trained model.

use burn::tensor::{Int, Tensor, TensorData};
use polyglow_data::config::Content;
use polyglow_data::padded::Padded;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_metrics::{has_spans, span_scores};
use polyglow_model::{Predict, Task, Text};

use super::labels::confusion::label_scores;
use super::labels::{Guess, guesses, label_ids, no_labels};
use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload_rows;
use crate::error::{Context, Result, ensure};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::{SPAN_F1, SPAN_PRECISION, SPAN_RECALL, TOKEN_ACCURACY};
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Tags,
    name: "tags of words",
    content: Content::TAGGED_TEXT,
    reads: Reads::Source,
    writes: false,
    scores: &[TOKEN_ACCURACY, SPAN_PRECISION, SPAN_RECALL, SPAN_F1],
    examples: "sentences",
    does: "tags words",
    advice: "`polyglow classify` tags the words of lines, `polyglow evaluate` scores it",
    command: "classify {run}",
    note: "then type sentences, one per line, with spaces around all words and marks",
    hub_tag: "token-classification",
    description: "An encoder that tags the words of texts",
};

/// Models that tag words.
#[derive(Clone, Copy, Debug)]
pub struct Tags;

impl TaskUse for Tags {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        _: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.pairs()?)
    }

    /// Warns of tags that the model does not know: a set that is tagged by hand has rare ones.
    fn check_held_out(&self, tgt: &Tokenizer, examples: &Examples) -> Result<()> {
        let mut unknown: Vec<&str> = Vec::new();
        for pair in examples.pairs()? {
            for tag in pair.tgt.split_whitespace() {
                if tag_id(tgt, tag)? == tgt.special().unk {
                    unknown.push(tag);
                }
            }
        }
        if let Some(first) = unknown.first() {
            tracing::warn!(
                "{} words of the set have tags that the training text does not have, such as `{first}`: they count as \
                 errors",
                unknown.len()
            );
        }
        Ok(())
    }

    fn classify(&self, runner: &Runner, texts: &[&str]) -> Result<Vec<Guess>> {
        classify(runner, texts)
    }
}

/// Scores the tags of sentences under the models: the share of words whose tag is ranked first, and
/// if the tags mark spans, the precision, recall and F1 of these.
///
/// # Errors
/// A sentence cannot be encoded, or has not as many tags as words.
pub(crate) fn evaluate(runner: &Runner, pairs: &[Pair]) -> Result<Evaluation> {
    let tags = &runner.tgt;
    let references = references(pairs)?;
    let evaluation = Evaluation::from_forced(teacher_forced(runner, pairs, &references)?);
    let mut hypotheses: Vec<Vec<String>> = Vec::with_capacity(pairs.len());
    for ids in &evaluation.first {
        hypotheses.push(names(tags, ids)?);
    }
    let names = references.concat();
    let given = evaluation.first.iter().flatten();
    let labels = label_scores(tags, &names, given)?;
    let mut evaluation = evaluation.with_labels(labels);
    if has_spans(names.iter()) {
        let mut tags: Vec<Vec<&str>> = Vec::with_capacity(hypotheses.len());
        for sentence in &hypotheses {
            tags.push(sentence.iter().map(String::as_str).collect());
        }
        let scores = span_scores(&tags, &references)?;
        evaluation = evaluation
            .with_score(SPAN_PRECISION.key, scores.precision)
            .with_score(SPAN_RECALL.key, scores.recall)
            .with_score(SPAN_F1.key, scores.f1);
    }
    evaluation.hypotheses = hypotheses.iter().map(|tags| tags.join(" ")).collect();
    Ok(evaluation)
}

/// Returns the tags of each sentence, one for each of its words.
///
/// # Errors
/// A sentence has not as many tags as words.
fn references(pairs: &[Pair]) -> Result<Vec<Vec<&str>>> {
    let mut references = Vec::with_capacity(pairs.len());
    for (number, pair) in (1..).zip(pairs) {
        let tags: Vec<&str> = pair.tgt.split_whitespace().collect();
        let num_words = pair.src.split_whitespace().count();
        ensure!(
            tags.len() == num_words,
            "sentence {number} of the set has {num_words} words and {} tags",
            tags.len()
        );
        references.push(tags);
    }
    Ok(references)
}

/// Returns the predictions at the words of each sentence, given the tags that they should have.
fn teacher_forced(
    runner: &Runner,
    pairs: &[Pair],
    references: &[Vec<&str>],
) -> Result<Vec<Forced>> {
    let mut targets = Vec::with_capacity(references.len());
    for names in references {
        targets.push(label_ids(names, &runner.tgt)?);
    }
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.src.as_str()).collect();
    let never = no_labels(runner.tgt.special());
    let pieces = pieces(runner, &texts)?;
    let forced_pieces = runner.shortest_first(&pieces, Piece::width, |rows| {
        let mut row_targets = Vec::new();
        for piece in rows {
            row_targets.extend_from_slice(&targets[piece.sentence][piece.words()]);
        }
        let log_probs = log_probs(runner, rows);
        let predicted = at_targets(&log_probs, row_targets, 1, None, &never).concat();
        let by_piece = split_by_piece(&predicted, rows);
        Ok(by_piece.into_iter().map(Forced::new).collect())
    })?;
    let mut forced = vec![Forced::default(); pairs.len()];
    for (piece, forced_piece) in pieces.iter().zip(forced_pieces) {
        let sentence = &mut forced[piece.sentence];
        sentence.log_probs.extend(forced_piece.log_probs);
        sentence.first.extend(forced_piece.first);
        sentence.num_correct += forced_piece.num_correct;
    }
    Ok(forced)
}

/// Splits the results for the words of several pieces, one after the other, by piece.
fn split_by_piece<'w, T>(words: &'w [T], pieces: &[&Piece]) -> Vec<&'w [T]> {
    let mut rest = words;
    let mut split = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let (own, others) = rest.split_at(piece.num_words);
        split.push(own);
        rest = others;
    }
    split
}

/// Tags the words of texts. The label of a guess has a tag for each word, with single spaces
/// between, and its probability is that of all of them together.
///
/// # Errors
/// A text cannot be encoded.
pub fn classify(runner: &Runner, texts: &[&str]) -> Result<Vec<Guess>> {
    let pieces = pieces(runner, texts)?;
    let tagged = runner.shortest_first(&pieces, Piece::width, |rows| {
        let words = guesses(log_probs(runner, rows), &runner.tgt)?;
        let by_piece = split_by_piece(&words, rows);
        Ok(by_piece.into_iter().map(<[Guess]>::to_vec).collect())
    })?;
    let mut words: Vec<Vec<Guess>> = vec![Vec::new(); texts.len()];
    for (piece, tagged) in pieces.iter().zip(tagged) {
        words[piece.sentence].extend(tagged);
    }
    let mut answers = Vec::with_capacity(texts.len());
    for words in &words {
        let tags: Vec<&str> = words.iter().map(|word| word.label.as_str()).collect();
        answers.push(Guess {
            label: tags.join(" "),
            probability: words.iter().map(|word| word.probability).product(),
            truncated: false,
        });
    }
    Ok(answers)
}

/// Returns the id of a tag; that of the unknown token for one that the model does not know.
fn tag_id(tags: &Tokenizer, name: &str) -> Result<u32> {
    let id = tags.encode(name)?.first().copied();
    Ok(id.unwrap_or(tags.special().unk))
}

fn names(tags: &Tokenizer, ids: &[u32]) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(ids.len());
    for &id in ids {
        names.push(tags.decode(&[id])?);
    }
    Ok(names)
}

/// Consecutive words of a sentence, as many as the models read at once: a longer sentence is tagged
/// piece by piece, so that each word has a tag.
struct Piece {
    /// Index of the sentence.
    sentence: usize,
    /// Index of the first word in the sentence.
    first_word: usize,
    num_words: usize,
    /// The ids for each member, none longer than the models.
    ids: Vec<Vec<u32>>,
    /// For each member the position of each word's first token. A word without tokens has the position
    /// of the next word, or of EOS.
    positions: Vec<Vec<usize>>,
}

impl Piece {
    /// Begins an empty piece, for as many members.
    fn new(sentence: usize, first_word: usize, num_members: usize) -> Self {
        Self {
            sentence,
            first_word,
            num_words: 0,
            ids: vec![Vec::new(); num_members],
            positions: vec![Vec::new(); num_members],
        }
    }

    /// Adds the tokens of the next word, one list for each member; what is longer than `longest`
    /// alone is cut.
    fn push(&mut self, word: &[&[u32]], longest: usize) {
        self.num_words += 1;
        for (index, tokens) in word.iter().enumerate() {
            self.positions[index].push(self.ids[index].len());
            self.ids[index].extend(tokens.iter().take(longest));
        }
    }

    /// Returns whether the next word still fits.
    fn has_room(&self, word: &[&[u32]], longest: usize) -> bool {
        let mut sides = self.ids.iter().zip(word);
        sides.all(|(ids, tokens)| ids.len() + tokens.len() <= longest)
    }

    /// Returns the number of positions of the longest member's ids, EOS included.
    fn width(&self) -> usize {
        self.ids.iter().map(Vec::len).max().unwrap_or(0) + 1
    }

    /// Returns the indices of its words in the sentence.
    fn words(&self) -> std::ops::Range<usize> {
        self.first_word..self.first_word + self.num_words
    }
}

/// Divides sentences into pieces, at least one for each.
fn pieces(runner: &Runner, texts: &[&str]) -> Result<Vec<Piece>> {
    let num_members = runner.members.len();
    let mut pieces = Vec::with_capacity(texts.len());
    for (sentence, text) in texts.iter().enumerate() {
        let num_words = text.split_whitespace().count();
        // For each member the ids of each word.
        let mut members_words: Vec<Vec<Vec<u32>>> = Vec::with_capacity(num_members);
        for member in &*runner.members {
            let (ids, words) = member.src.encode_words(text).context("encoding the text")?;
            let mut words_ids = vec![Vec::new(); num_words];
            for (id, word) in ids.into_iter().zip(words) {
                words_ids[word].push(id);
            }
            members_words.push(words_ids);
        }
        let mut piece = Piece::new(sentence, 0, num_members);
        for index in 0..num_words {
            let word: Vec<&[u32]> = members_words.iter().map(|words| &*words[index]).collect();
            if piece.num_words > 0 && !piece.has_room(&word, runner.longest) {
                pieces.push(piece);
                piece = Piece::new(sentence, index, num_members);
            }
            piece.push(&word, runner.longest);
        }
        pieces.push(piece);
    }
    Ok(pieces)
}

/// Returns the log-probabilities of the tags of all words, piece by piece.
///
/// # Shapes
/// - output: `[words, tags]`
fn log_probs(runner: &Runner, pieces: &[&Piece]) -> Tensor<2> {
    runner.log_probs(|index, member| {
        let special = member.src.special();
        let rows: Vec<&[u32]> = pieces.iter().map(|piece| &*piece.ids[index]).collect();
        let rows = Padded::ended(&rows, special.eos, special.pad, runner.pad_multiple);
        let mut words: Vec<i32> = Vec::new();
        for (row, piece) in pieces.iter().enumerate() {
            let positions = piece.positions[index].iter();
            words.extend(positions.map(|position| (row * rows.len + position) as i32));
        }
        let num_words = words.len();
        let words: Tensor<1, Int> =
            Tensor::from_data(TensorData::new(words, [num_words]), &runner.device);
        let text = Text {
            ids: upload_rows(&rows, &runner.device),
        };
        let logits = Predict::<Text>::predict(&member.model, text).logits();
        logits.select(0, words)
    })
}
