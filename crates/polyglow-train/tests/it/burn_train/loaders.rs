//! The data loaders that Burn's trainer is given.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use polyglow_data::batch::PairBatch;
use polyglow_data::example::Example;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_model::parameter;
use polyglow_train::Task;
use polyglow_train::burn_train::{Batch, Batches, Learnable, PairBatcher, ValidationInput};

use super::{new_model, prepare, translation};

#[test]
fn the_loader_has_the_batches_of_our_loop_in_their_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(dir.path());
    let task = translation(&training);
    let stream = BatchStream::start(Arc::clone(task.source()), Position::default());
    let mut stream = stream.expect("it can be planned");
    let batches = Batches::new(Arc::clone(task.source()), 1);
    let len = batches.num_items();
    assert!(len > 2);
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut epoch = batches.iter();
        let mut processed = 0;
        while let Some(batch) = epoch.next() {
            let Batch {
                content,
                dropout_key,
            } = batch.expect("it can be read");
            let placed = stream
                .next()
                .expect("it is endless")
                .expect("it can be read");
            assert_eq!(content, placed.batch);
            processed += 1;
            let progress = epoch.progress();
            assert_eq!(
                (progress.items_processed, progress.items_total),
                (processed, len)
            );
            keys.push(dropout_key.expect("it has a key"));
        }
        assert_eq!(processed, len);
    }
    // No two steps drop the same.
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 2 * len);
}

#[test]
fn slices_are_the_whole_in_their_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let task = translation(&prepare(dir.path()));
    let whole = Batches::new(Arc::clone(task.source()), 1);
    let all: Vec<PairBatch> = contents(&whole);
    let whole = Batches::new(Arc::clone(task.source()), 1);
    let len = whole.num_items();
    let slices = [whole.slice(0, 2), whole.slice(2, len)];
    let [first, second] = slices.map(|slice| slice.to_device(&Device::flex()));
    assert_eq!((first.num_items(), second.num_items()), (2, len - 2));
    assert_eq!([contents(&*first), contents(&*second)].concat(), all);
    // One that the epoch does not reach is empty.
    let beyond = Batches::new(Arc::clone(task.source()), 1).slice(len, len + 1);
    assert_eq!(beyond.num_items(), 0);
    assert!(beyond.iter().next().is_none());
}

fn contents(batches: &dyn DataLoader<Batch<PairBatch>>) -> Vec<PairBatch> {
    batches
        .iter()
        .map(|batch| batch.expect("it can be read").content)
        .collect()
}

#[test]
fn a_dataset_of_burns_validates_and_trains() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(dir.path());
    let task = translation(&training);
    let tokenizers = &training.tokenizers;
    let batcher = PairBatcher {
        src: tokenizers.src.special(),
        tgt: tokenizers.tgt.special(),
        pad_multiple: 1,
    };
    let setting = training.setting().expect("the model fits");
    let mut examples = Vec::new();
    for pair in &setting.valid.pairs()[..10] {
        examples.push(Example {
            src: tokenizers.src.encode(&pair.src).expect("it is text"),
            tgt: tokenizers.tgt.encode(&pair.tgt).expect("it is text"),
        });
    }
    let num_targets: usize = examples.iter().map(|example| example.tgt.len() + 1).sum();
    let learnable = Learnable::new(task, new_model(&training));
    let loader: Arc<dyn DataLoader<ValidationInput<PairBatch>>> = DataLoaderBuilder::new(batcher)
        .batch_size(4)
        .set_device(Device::flex())
        .build(InMemDataset::new(examples.clone()));
    let mut targets = Vec::new();
    for input in loader.iter() {
        let output = InferenceStep::step(&learnable, input.expect("it is in memory"));
        assert!(output.scores.is_none());
        targets.push(output.targets);
    }
    assert_eq!((targets.len(), targets.iter().sum()), (3, num_targets));
    let loader: Arc<dyn DataLoader<Batch<PairBatch>>> = DataLoaderBuilder::new(batcher)
        .batch_size(4)
        .set_device(Device::flex())
        .build(InMemDataset::new(examples));
    let batch = loader.iter().next().expect("it has batches");
    let batch = batch.expect("it is in memory");
    let step = TrainStep::step(&learnable, batch);
    assert_eq!(step.item.targets, targets[0]);
    assert_eq!(step.grads.len(), parameter::read(&learnable.model).len());
}
