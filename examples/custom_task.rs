//! A program with a task of its own, a score of its own, and every command of `polyglow`: R-Drop
//! (Liang et al., 2021, arXiv:2106.14448) reads each batch under two dropout masks, and trains the
//! model to give both times the same probabilities.
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_task -- train examples/custom_task.toml
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use burn::tensor::Device;
use burn::tensor::activation::log_softmax;
use polyglow::Registry;
use polyglow_metrics::Measure;
use polyglow_model::{Model, Predict, Prediction};
use polyglow_predict::error::Result;
use polyglow_train::Task;
use polyglow_train::tasks::translation::{Pairs, Translation};
use polyglow_train::tasks::{AnyTask, BatchOf, BatchSize, Loss, Setting, Validation};

fn main() -> ExitCode {
    let registry = Registry::new()
        .measure(LENGTH_RATIO)
        .task("r-drop", |setting, data| {
            let translation = Translation::new(setting.clone(), Arc::clone(data.text()?))?;
            Ok(AnyTask::new(RDrop(translation, setting)))
        });
    polyglow::run_with(registry)
}

const LENGTH_RATIO: Measure = Measure {
    key: "length_ratio",
    title: "length ratio",
    higher_is_better: true,
    decimals: 3,
};

struct RDrop(Translation, Setting);

impl Task for RDrop {
    type Model = Model;
    type Source = <Translation as Task>::Source;
    type Inputs = Pairs;

    fn source(&self) -> &Arc<Self::Source> {
        self.0.source()
    }

    fn size(&self, batch: &BatchOf<Self>) -> BatchSize {
        self.0.size(batch)
    }

    fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> Pairs {
        self.0.upload(batch, device)
    }

    fn loss(&self, model: &Model, batch: Pairs) -> Loss {
        let pad_id = self.1.tokenizers.tgt.special().pad;
        let smoothing = self.1.plan.config.train.label_smoothing;
        let is_padding = batch.targets.all.clone().equal_elem(pad_id);
        let pass = || model.predict(batch.inputs.clone()).logits();
        let [first, second] = [pass(), pass()];
        let loss =
            |scores| Prediction::Scores(scores).loss(batch.targets.clone(), smoothing, pad_id);
        let [loss_first, loss_second] = [loss(first.clone()), loss(second.clone())];
        let [first, second] = [log_softmax(first, 1), log_softmax(second, 1)];
        // Both divergences, of the first from the second and the other way round.
        let divergences = (first.clone().exp() - second.clone().exp()) * (first - second);
        let divergence = divergences
            .sum_dim(1)
            .squeeze_dim::<1>(1)
            .mask_fill(is_padding, 0.0);
        let loss_sum = (loss_first.loss_sum + loss_second.loss_sum) / 2.0;
        Loss {
            minimized: loss_sum.clone() + divergence.sum() / 4.0,
            loss_sum,
            nll_sum: (loss_first.nll_sum + loss_second.nll_sum) / 2.0,
        }
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        let mut validation = self.0.validate(model)?;
        if let Some(Validation {
            scores, outputs, ..
        }) = &mut validation
        {
            let words = |text: &str| text.split_whitespace().count() as f64;
            let references = self.1.valid.pairs().iter().map(|pair| words(&pair.tgt));
            let ratio =
                outputs.iter().map(|output| words(output)).sum::<f64>() / references.sum::<f64>();
            scores.others.insert(LENGTH_RATIO.key.to_owned(), ratio);
        }
        Ok(validation)
    }
}
