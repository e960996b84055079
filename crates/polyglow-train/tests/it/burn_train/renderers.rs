//! Our loop in a renderer of Burn's.

use burn::train::Interrupter;
use polyglow_train::burn_train::RendererObserver;
use polyglow_train::{Ending, Stop};

use super::recorder::Recorder;
use super::{prepare, prepare_with};

#[test]
fn a_renderer_of_burns_watches_our_loop() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let overrides = [
        "train.max_steps=4",
        "train.log_every=2",
        "train.validate_every=4",
    ];
    let mut training = prepare_with(dir.path(), &overrides.map(str::to_owned));
    let recorder = Recorder::default();
    let renderer = Box::new(recorder.clone());
    let mut observer = RendererObserver::new(renderer, Interrupter::new());
    let ending = training.run(&Stop::default(), &mut observer);
    assert_eq!(ending.expect("it trains").0, Ending::Done);
    let events = recorder.events();
    let position = |event: &str| {
        let found = events.iter().position(|known| known == event);
        found.unwrap_or_else(|| panic!("no `{event}` in {events:#?}"))
    };
    let order = [
        "start 1 of 1, 4 items",
        "split train of 4",
        "at 1",
        "metric loss, lower is better",
        "train loss",
        "at 4",
        "split valid of 1",
        "metric BLEU, higher is better",
        "valid BLEU",
        "end",
        "train ended",
    ];
    assert!(order.map(position).is_sorted(), "{events:#?}");
    // What records of both kinds have is one metric.
    let registered = |event: &&String| event.starts_with("metric loss");
    assert_eq!(events.iter().filter(registered).count(), 1);
}

#[test]
fn a_renderer_may_stop_our_loop() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut training = prepare(dir.path());
    let interrupter = Interrupter::new();
    let recorder = Recorder::stopping_at(3, interrupter.clone());
    let mut observer = RendererObserver::new(Box::new(recorder), interrupter);
    let (ending, state) = training
        .run(&Stop::default(), &mut observer)
        .expect("it trains");
    assert_eq!((ending, state.step), (Ending::Stopped, 3));
}
