//! The output of a step, and our scores as metrics of Burn's.

use std::sync::Arc;

use burn::tensor::{Device, ExecutionError, Tensor, TensorReadError};
use burn::train::ItemLazy;
use burn::train::metric::{
    Adaptor, LossInput, Metric, MetricAttributes, MetricMetadata, MetricName, Numeric,
    NumericAttributes, NumericEntry, SerializedEntry,
};
use polyglow_metrics::Measure;
use polyglow_predict::evaluation::Scores;
use polyglow_predict::measures::{LOSS, PERPLEXITY};

use crate::tasks::Loss;

/// The output of a step: sums over its targets, from which metrics are computed. They stay on the
/// device until a metric reads them.
#[derive(Clone, Debug)]
pub struct StepOutput {
    /// Smoothed cross-entropy in nats, `[1]`: of a training step, what it minimized, without guided
    /// alignment.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing in nats, `[1]`.
    pub nll_sum: Tensor<1>,
    /// Targets, without padding.
    pub targets: usize,
    /// The scores of all held-out data; `None` for a single batch, and where there is none.
    pub scores: Option<Arc<Scores>>,
}

impl StepOutput {
    /// Makes the output of a step over a batch with this many targets.
    pub(super) fn from_loss(loss: &Loss, targets: usize) -> Self {
        Self {
            loss_sum: loss.loss_sum.clone().without_autodiff(),
            nll_sum: loss.nll_sum.clone().without_autodiff(),
            targets,
            scores: None,
        }
    }

    /// Makes the output of a validation: the mean loss counts as one target. Without scores there
    /// is no target, and the loss is NaN.
    pub(super) fn from_scores(scores: Option<Scores>, device: &Device) -> Self {
        let loss = scores.as_ref().map_or(f64::NAN, |scores| scores.loss);
        let loss_sum = Tensor::<1>::from_floats([loss as f32], device);
        Self {
            nll_sum: loss_sum.clone(),
            loss_sum,
            targets: usize::from(scores.is_some()),
            scores: scores.map(Arc::new),
        }
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        // Nothing is read here: metrics read in a thread of their own, which the work that this
        // starts does not keep waiting.
        self.loss_sum.device().flush()?;
        Ok(self)
    }
}

/// For Burn's `LossMetric`, which weighs all batches the same, however many targets they have.
impl Adaptor<LossInput> for StepOutput {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss_sum.clone() / self.targets as f64)
    }
}

/// The input of a [`ScoreMetric`].
#[derive(Clone, Debug)]
pub struct ScoreInput {
    nll_sum: Tensor<1>,
    targets: usize,
    scores: Option<Arc<Scores>>,
}

impl Adaptor<ScoreInput> for StepOutput {
    fn adapt(&self) -> ScoreInput {
        ScoreInput {
            nll_sum: self.nll_sum.clone(),
            targets: self.targets,
            scores: self.scores.clone(),
        }
    }
}

/// One of our scores as a metric of Burn's: any [`Measure`] of a validation that a
/// [`WholeSet`](super::WholeSet) is for, and of single batches [`LOSS`] and [`PERPLEXITY`].
///
/// Both are without smoothing, and every target of an epoch counts the same. Other scores have no
/// value for batches: register them with `metric_valid_numeric`.
#[derive(Clone, Debug)]
pub struct ScoreMetric {
    measure: Measure,
    name: MetricName,
    newest: Mean,
    epoch: Mean,
}

/// A mean with its weight; without any it is no value.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl ScoreMetric {
    /// Makes the metric of a measure, such as [`Measure::BLEU`]. Its name is the measure's title;
    /// that of [`LOSS`] is `loss per target`, as Burn's own `LossMetric` is named `Loss`.
    pub fn new(measure: Measure) -> Self {
        let name = if measure == LOSS {
            "loss per target"
        } else {
            measure.title
        };
        Self {
            measure,
            name: Arc::new(name.to_owned()),
            newest: Mean::default(),
            epoch: Mean::default(),
        }
    }

    /// Returns the value of this measure, whose means are those of [`Self::mean_of`].
    fn value_of(&self, mean: Mean) -> Option<f64> {
        if mean.count == 0 {
            return None;
        }
        let value = mean.sum / mean.count as f64;
        Some(if self.is_perplexity() {
            value.exp()
        } else {
            value
        })
    }

    /// Returns what is averaged over an item: of perplexity its logarithm, which is the loss.
    fn mean_of(&self, input: &ScoreInput) -> Result<Mean, TensorReadError> {
        let key = if self.is_perplexity() {
            LOSS.key
        } else {
            self.measure.key
        };
        if let Some(scores) = &input.scores {
            let score = scores.get(key);
            return Ok(score.map_or_else(Mean::default, |sum| Mean { sum, count: 1 }));
        }
        if key != LOSS.key || input.targets == 0 {
            return Ok(Mean::default());
        }
        Ok(Mean {
            sum: input.nll_sum.clone().try_into_scalar::<f64>()?,
            count: input.targets,
        })
    }

    fn is_perplexity(&self) -> bool {
        self.measure == PERPLEXITY
    }

    fn aggregated(&self, mean: Mean) -> Option<NumericEntry> {
        Some(NumericEntry::Aggregated {
            aggregated_value: self.value_of(mean)?,
            count: mean.count,
        })
    }

    /// Makes the entry that is shown and logged; `logged` is the value in the log.
    fn entry(&self, logged: Option<&NumericEntry>) -> SerializedEntry {
        let (Some(epoch), Some(logged)) = (self.value_of(self.epoch), logged) else {
            return SerializedEntry::not_available(None);
        };
        let decimals = self.measure.decimals;
        let newest = self
            .value_of(self.newest)
            .map_or("N/A".to_owned(), |value| format!("{value:.decimals$}"));
        let shown = format!("epoch {epoch:.decimals$} - batch {newest}");
        SerializedEntry::new(shown, logged.serialize())
    }
}

impl Metric for ScoreMetric {
    type Input = ScoreInput;

    fn name(&self) -> MetricName {
        Arc::clone(&self.name)
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: None,
            higher_is_better: self.measure.higher_is_better,
        }
        .into()
    }

    fn update(
        &mut self,
        input: &ScoreInput,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.newest = self.mean_of(input)?;
        self.epoch.sum += self.newest.sum;
        self.epoch.count += self.newest.count;
        Ok(self.entry(self.value().as_ref()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.entry(Some(&self.final_value())))
    }

    fn clear(&mut self) {
        self.newest = Mean::default();
        self.epoch = Mean::default();
    }
}

impl Numeric for ScoreMetric {
    fn value(&self) -> Option<NumericEntry> {
        self.aggregated(self.newest)
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.aggregated(self.epoch)
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.value_of(self.epoch).unwrap_or(f64::NAN))
    }
}
