//! Rows through models and back: encode, sort, batch, upload, forward, read, reorder, for every command.

use std::cmp::Reverse;
use std::sync::Arc;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, Transaction};
use polyglow_data::special::SpecialIds;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::search::SearchConfig;
use polyglow_model::{Model, Task, mean_of_probabilities};

use crate::error::Result;
use crate::plan::{Plan, TaskPlan};

/// Bytes of the longest line that is encoded as a whole. The tokenizers' library needs a hundred times the size of what it
/// encodes, so longer lines are cut first.
pub(crate) const ENCODED_WHOLE: usize = 1 << 16;

/// Models in use: one, or several that decide together, with all that they need. It owns everything, and threads can share
/// it.
///
/// ```
/// use polyglow_train::{Config, Runner, Silent, Stop, Training, device};
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?.run(&Stop::default(), &mut Silent)?;
///
/// let mut runner = Runner::load(dir.path(), &device::open("flex")?)?;
/// runner.search.beam_size = 2;
/// let translations = runner.best(&["1 2 3", "", "4"])?;
/// assert_eq!((translations.len(), &*translations[1]), (3, ""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Runner<M = Model> {
    /// The models; at least one, on a device that does not differentiate.
    pub members: Vec<Member<M>>,
    /// The target side's tokenizer, the same for all members.
    pub tgt: Arc<Tokenizer>,
    /// What the models were trained for.
    pub task: TaskPlan,
    /// How hypotheses are looked for.
    pub search: SearchConfig,
    /// Where the models are.
    pub device: Device,
    /// Padded positions in a batch, times the beam, at most.
    pub max_tokens: usize,
    /// What padded lengths are multiples of.
    pub pad_multiple: usize,
    /// The most tokens of a side that all members can read, without the end mark; as many can be written.
    pub longest: usize,
}

/// A model with the tokenizer of its source side.
#[derive(Clone)]
pub struct Member<M = Model> {
    /// The model.
    pub model: M,
    /// The source side's tokenizer.
    pub src: Arc<Tokenizer>,
}

/// Something that a model finds at a position.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg(feature = "training")]
pub(crate) struct Predicted {
    pub(crate) log_prob: f32,
    pub(crate) first: u32,
    /// Whether the token that stands there is ranked first.
    pub(crate) correct: bool,
}

impl<M> Runner<M> {
    /// One model that reads `longest` tokens at most.
    pub(crate) fn new(model: M, plan: &Plan, tokenizers: &Tokenizers, search: SearchConfig, longest: usize) -> Self {
        Self {
            members: vec![Member { model, src: Arc::clone(&tokenizers.src) }],
            tgt: Arc::clone(&tokenizers.tgt),
            task: plan.task,
            search,
            device: plan.device.clone(),
            max_tokens: plan.max_tokens(),
            pad_multiple: plan.pad_multiple,
            longest,
        }
    }

    /// What the models were trained for, without its settings.
    pub fn kind(&self) -> Task {
        self.task.kind()
    }

    /// Runs rows in batches, the shortest first, each of at most `max_tokens` padded positions, and returns what `run` gives
    /// for each row, in the order of `rows`.
    ///
    /// # Errors
    /// The first error of `run`.
    #[cfg(feature = "training")]
    pub(crate) fn shortest_first<R, T>(
        &self,
        rows: &[R],
        width: impl Fn(&R) -> usize,
        run: impl FnMut(&[&R]) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| width(&rows[row]));
        let cost = |batch: &[usize]| batch.len() * self.padded(batch.last().map_or(0, |&row| width(&rows[row])));
        self.in_batches(rows, &order, cost, run)
    }

    /// As [`Self::shortest_first`], the longest first: the first batch shows whether the memory suffices. `width` is in
    /// positions of a batch of searches, each of which takes up as many as hypotheses are kept.
    ///
    /// # Errors
    /// The first error of `run`.
    pub(crate) fn longest_first<R, T>(
        &self,
        rows: &[R],
        width: impl Fn(&R) -> usize,
        run: impl FnMut(&[&R]) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| Reverse(width(&rows[row])));
        let width = |batch: &[usize]| batch.first().map_or(0, |&row| width(&rows[row]) + 1);
        let cost = |batch: &[usize]| batch.len() * self.padded(width(batch)) * self.search.beam_size;
        self.in_batches(rows, &order, cost, run)
    }

    fn in_batches<R, T>(
        &self,
        rows: &[R],
        order: &[usize],
        cost: impl Fn(&[usize]) -> usize,
        mut run: impl FnMut(&[&R]) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut found: Vec<(usize, T)> = Vec::with_capacity(rows.len());
        let mut rest = order;
        while !rest.is_empty() {
            let fits = |count: &usize| cost(&rest[..*count]) <= self.max_tokens;
            let count = (2..=rest.len()).take_while(fits).last().unwrap_or(1);
            let (batch, later) = rest.split_at(count);
            let batch_rows: Vec<&R> = batch.iter().map(|&row| &rows[row]).collect();
            found.extend(batch.iter().copied().zip(run(&batch_rows)?));
            rest = later;
        }
        found.sort_by_key(|(row, _)| *row);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.pad_multiple.max(1))
    }

    /// The source ids of some texts, once for each member.
    ///
    /// # Errors
    /// A text cannot be encoded.
    pub(crate) fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<Vec<u32>>>> {
        let mut encoded = vec![Vec::with_capacity(self.members.len()); texts.len()];
        for member in &self.members {
            for (text, ids) in encoded.iter_mut().zip(member.src.encode_batch(texts)?) {
                text.push(ids);
            }
        }
        Ok(encoded)
    }

    /// Log-probabilities by which the members decide together. `logits` gives the scores of a member, by its number.
    ///
    /// # Shapes
    /// - output: `[rows, classes]`
    #[cfg(feature = "training")]
    pub(crate) fn log_probs(&self, mut logits: impl FnMut(usize, &Member<M>) -> Tensor<2>) -> Tensor<2> {
        mean_of_probabilities(
            self.members.iter().enumerate().map(|(index, member)| log_softmax(logits(index, member), 1)),
        )
    }
}

/// What is found at every position that has a target, row by row. Targets that are `ignored`, such as padding, are none.
///
/// # Shapes
/// - `log_probs`: `[rows * len, classes]`; `targets`: `[rows, len]` row by row
#[cfg(feature = "training")]
pub(crate) fn at_targets(
    log_probs: &Tensor<2>,
    targets: Vec<i32>,
    len: usize,
    ignored: Option<u32>,
) -> Vec<Vec<Predicted>> {
    let wanted: Vec<i64> = targets.iter().map(|&target| i64::from(target)).collect();
    let device = log_probs.device();
    let targets: Tensor<2, Int> = crate::device::upload(targets, 1, &device);
    let ranked_first = log_probs.clone().argmax(1);
    let read = Transaction::default().register(log_probs.clone().gather(1, targets)).register(ranked_first).execute();
    let found = read[0].iter::<f32>().zip(read[1].iter::<i64>()).zip(wanted);
    let ignored = ignored.map(i64::from);
    let predicted: Vec<Option<Predicted>> = found
        .map(|((log_prob, first), target)| {
            (Some(target) != ignored).then_some(Predicted { log_prob, first: first as u32, correct: first == target })
        })
        .collect();
    predicted.chunks(len.max(1)).map(|row| row.iter().copied().flatten().collect()).collect()
}

/// The label in each row of log-probabilities that is the most probable, and its probability. Only ids that stand for text
/// are labels.
#[cfg(feature = "training")]
pub(crate) fn most_probable(log_probs: Tensor<2>, special: SpecialIds) -> Vec<Option<(u32, f64)>> {
    let [_, size] = log_probs.dims();
    let log_probs: Vec<f32> = log_probs.into_data().iter().collect();
    let is_label = |id: u32| !special.is_silent(id) && id != special.unk;
    let best = |row: &[f32]| {
        let labels = (0..).zip(row).filter(|(id, _)| is_label(*id));
        labels.max_by(|left, right| left.1.total_cmp(right.1)).map(|(id, log_prob)| (id, f64::from(*log_prob).exp()))
    };
    log_probs.chunks(size).map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared<T: Send + Sync>() {}

    #[test]
    fn a_runner_can_be_shared_between_threads() {
        shared::<Runner>();
    }
}
