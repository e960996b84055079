//! Our scores as metrics of Burn's.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, Progress};
use burn::train::TrainStep;
use burn::train::metric::{Adaptor, Metric, MetricMetadata, Numeric};
use polyglow_metrics::Measure;
use polyglow_predict::measures::{LOSS, PERPLEXITY};
use polyglow_train::Task;
use polyglow_train::burn_train::{Batches, Learnable, ScoreMetric};

use super::{assert_close, learner, logged, new_model, prepare, supervised, translation};

#[test]
fn a_validation_has_the_scores_of_ours() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(&dir.path().join("run"));
    let learnable = Learnable::new(translation(&training), new_model(&training));
    let logs = dir.path().join("burn");
    let result = supervised(&logs, &training, &learnable)
        .metric_valid_numeric(ScoreMetric::new(Measure::CHRF))
        .metric_valid_numeric(ScoreMetric::new(PERPLEXITY))
        .num_epochs(10)
        .launch(learner(&training, learnable));
    assert!(result.error.is_none(), "{:?}", result.error);
    let learned = result.model;
    let validation = learned.task().validate(learned.model.clone());
    let validation = validation.expect("it can be scored");
    let scores = validation.expect("there are pairs").scores;
    let chrf = scores.get("chrf").expect("there are references");
    assert!(chrf > 0.0);
    assert_eq!(logged(&logs, "valid", 10, "chrF"), [chrf]);
    assert_eq!(logged(&logs, "valid", 10, "loss_per_target"), [scores.loss]);
    let perplexity = logged(&logs, "valid", 10, "perplexity");
    assert_close(&perplexity, &[scores.perplexity], 1e-12);
}

#[test]
fn every_target_counts_the_same_in_a_score_of_batches() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(dir.path());
    let learnable = Learnable::new(translation(&training), new_model(&training));
    let source = Arc::clone(learnable.task().source());
    let metadata = MetricMetadata {
        progress: Progress::new(1, 1, None),
        iteration: None,
        lr: None,
    };
    let mut loss = ScoreMetric::new(LOSS);
    let mut perplexity = ScoreMetric::new(PERPLEXITY);
    let mut bleu = ScoreMetric::new(Measure::BLEU);
    let (mut nll_sum, mut targets) = (0.0, 0);
    for batch in Batches::new(source, 1).iter().take(3) {
        let output = TrainStep::step(&learnable, batch.expect("it can be read")).item;
        nll_sum += output.nll_sum.clone().into_scalar::<f64>();
        targets += output.targets;
        for metric in [&mut loss, &mut perplexity, &mut bleu] {
            let entry = metric.update(&output.adapt(), &metadata);
            entry.expect("it can be read");
        }
    }
    let mean = nll_sum / targets as f64;
    assert!((loss.final_value().current() - mean).abs() < 1e-12);
    assert!((perplexity.final_value().current() - mean.exp()).abs() < 1e-9);
    assert!(bleu.value().is_none() && bleu.running_value().is_none());
    let entry = bleu.compute().expect("it reads nothing");
    assert!(entry.is_not_available());
    loss.clear();
    assert!(loss.value().is_none());
}
