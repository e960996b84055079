//! Validations, and which of them is the best.

use burn::module::Module;
use polyglow_data::file;
use polyglow_predict::error::{Result, ensure, failed, usage, with_hint};
use polyglow_predict::evaluation::Scores;
use polyglow_predict::measures::{LOSS, MetricRow};

use super::{BeforeBest, Session};
use crate::config::BestMetric;
use crate::observer::Observer;
use crate::run::records::Records;
use crate::tasks::{Task, Validation, held_out_span};

impl<T: Task> Session<'_, T> {
    /// Validates the weights that a fork begins with, before its first step: they compete for
    /// `best`, so that a fork that only loses by its training keeps them. Does nothing in any other
    /// run, and in one that has begun.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_origin(
        &mut self,
        records: &mut Records,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let training = self.training;
        let group = &training.plan.group;
        let is_fork = group.share(|| Ok(training.origin().is_some()))?;
        if is_fork && self.state.step == 0 {
            self.validate(records, observer)?;
        }
        Ok(())
    }

    /// Scores the validation set and keeps the model's outputs; returns whether this validation is
    /// the best so far.
    ///
    /// # Errors
    /// As [`Self::check`]; the loss of the validation is not finite.
    pub fn validate(&mut self, records: &mut Records, observer: &mut dyn Observer) -> Result<bool> {
        let step = self.state.step;
        observer.validating(step);
        // The training's batches are done; a device that fails from here on fails without one.
        self.check()?;
        self.batch.set(None);
        observer.batch(None);
        let model = self.stepper.model()?.valid();
        let Some(validation) = self.validate_model(model)? else {
            return Ok(false);
        };
        let Validation {
            scores,
            outputs,
            samples,
        } = validation;
        ensure!(
            scores.loss.is_finite(),
            "the validation loss after step {step} is not finite: the weights are useless, and nothing is saved"
        );
        self.write_outputs(&outputs);
        let record = records.write_scores("valid", "valid", step, &scores)?;
        observer.scores(step, &scores, &record);
        for [source, reference, hypothesis] in &samples {
            tracing::info!(
                "  source      {source}\n  reference   {reference}\n  hypothesis  {hypothesis}"
            );
        }
        self.is_improvement(&scores)
    }

    fn validate_model(&self, model: T::Model) -> Result<Option<Validation>> {
        let valid = self.training.text.valid.as_ref();
        let _text = valid.map(|valid| held_out_span(valid).entered());
        self.task.validate(model)
    }

    /// Writes the model's outputs into the run, a line for each example.
    fn write_outputs(&self, outputs: &[String]) {
        if outputs.is_empty() || !self.training.plan.group.is_first() {
            return;
        }
        let path = self.training.run.validation_path(self.state.step);
        let text = outputs.join("\n") + "\n";
        if let Err(error) = file::replace(&path, text.as_bytes()) {
            tracing::warn!(
                "cannot write `{}`: {error}; training continues without it",
                path.display()
            );
        }
    }

    /// Returns in every rank whether these are the best scores so far, as rank 0 decides: on
    /// another processor a score may differ in its last digit.
    fn is_improvement(&mut self, scores: &Scores) -> Result<bool> {
        let group = &self.training.plan.group;
        let decided = group.share(|| {
            let is_best = self.compare(scores)?;
            // As JSON, which checkpoints use too: `f64` survives it with all its bits.
            Ok((is_best, serde_json::to_string(&self.state)?))
        })?;
        let (is_best, state) = decided;
        if !group.is_first() {
            self.before_best = BeforeBest::from_state(&self.state);
            self.state = serde_json::from_str(&state)?;
        }
        Ok(is_best)
    }

    /// Returns whether these scores are the best so far, and remembers them if so.
    fn compare(&mut self, scores: &Scores) -> Result<bool> {
        let train = &self.training.plan.config.train;
        let Chosen { score, sign } = Chosen::from_scores(self.training.plan.best_metric, scores)?;
        let before = BeforeBest::from_state(&self.state);
        let warms_up = self.state.step <= train.warmup_steps;
        let is_best = self
            .state
            .see_validation(score, |score| score * sign, scores.loss, warms_up);
        if is_best {
            self.before_best = before;
        }
        Ok(is_best)
    }
}

/// The score by which validations are compared.
struct Chosen {
    score: f64,
    /// 1 where a higher score is better, -1 where a lower one is.
    sign: f64,
}

impl Chosen {
    /// Picks the score of `metric`, or the loss where there is nothing that was compared with
    /// references.
    ///
    /// # Errors
    /// The task does not give this score (exit code 2), or it is not finite.
    fn from_scores(metric: BestMetric, scores: &Scores) -> Result<Self> {
        let MetricRow { measure, .. } = metric.0;
        let has_no_references = metric.0.needs_references() && scores.translations.is_none();
        let measure = if has_no_references { &LOSS } else { measure };
        let Some(score) = scores.get(measure.key) else {
            let error = failed!(
                "`train.best_metric = \"{}\"`: the validation gives no such score",
                measure.key
            );
            return Err(with_hint(usage(error), format!("its scores are: {scores}")));
        };
        ensure!(
            score.is_finite(),
            "`train.best_metric = \"{}\"`: the score of the validation is {score}",
            measure.key
        );
        let sign = if measure.higher_is_better { 1.0 } else { -1.0 };
        Ok(Self { score, sign })
    }
}
