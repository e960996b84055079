//! From text to tokenizers, and from both to what models read.

use std::sync::Arc;

use polyglow_data::id_cache::IdCache;
use polyglow_data::sources::CaptionImages;
use polyglow_data::tokenizer::{Stage, Tokenizers};
use polyglow_predict::error::{Context, Result, TrainError, ensure, failed, with_hint};
use polyglow_predict::model::check_beam;
use polyglow_predict::tasks::Reads;
use polyglow_predict::tasks::labels::label_ids;

use super::Text;
use crate::config::Config;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::run::{RunDirectory, TextHashes};
use crate::tasks::TrainingData;
use crate::train::fork::Origin;

/// Makes the run's directory and its tokenizers, as far as that has not been done; nothing is
/// written for a run that may not be resumed.
pub(super) fn tokenizers(
    run: &RunDirectory,
    origin: Option<&Origin>,
    config: &Config,
    text: &Text,
    observer: &mut dyn Observer,
) -> Result<(Tokenizers, TextHashes)> {
    let begins = run.checkpoints(1).steps()?.is_empty();
    // Those of a training without a checkpoint may be of other text.
    let known = if !begins && run.has_tokenizers() {
        Some(text.fit(run, run.tokenizers()?)?)
    } else {
        None
    };
    if let Some(origin) = origin {
        origin.note(run)?;
    }
    run.make_room()?;
    observer.opened(run)?;
    if let Some(known) = known {
        return Ok(known);
    }
    let carried = match origin {
        Some(origin) => origin.tokenizers(config, &text.train)?,
        None => None,
    };
    if config.data.clean.is_some() {
        observer.activity("cleaning the training text");
    }
    let tokenizers = match carried {
        Some(tokenizers) => tokenizers,
        None => Tokenizers::train(&config.tokenizer, &text.train, &mut |stage, count| {
            show_progress(observer, stage, count);
        })?,
    };
    let fitting = text.fit(run, tokenizers)?;
    run.remove_tokenizers()?;
    fitting.0.save(run.root())?;
    Ok(fitting)
}

/// Checks that the tokenizers suit the config and the validation set, and turns the training data
/// into ids.
pub(super) fn encode(
    run: &RunDirectory,
    plan: &Plan,
    text: &Text,
    tokenizers: &Tokenizers,
    observer: &mut dyn Observer,
) -> Result<TrainingData> {
    check_beam(&plan.config.search, tokenizers)?;
    let facts = plan.task.facts();
    let held_out = &text.held_out;
    if !held_out.is_empty() {
        plan.task
            .check_held_out(&tokenizers.tgt, &held_out.examples())
            .context("in the validation set")?;
    }
    if let Some((images, parts)) = text.train.training_images() {
        let names: Vec<&str> = images.labels.names().iter().map(String::as_str).collect();
        let ids = label_ids(&names, &tokenizers.tgt)?;
        let labels: Arc<[i32]> = images
            .label_ids
            .iter()
            .map(|&label| ids[label as usize])
            .collect();
        let shape = [images.height, images.width, images.channels];
        let configured = plan.config.data.images().shape();
        ensure!(
            shape == configured,
            "the images are {shape:?} (height, width, bytes), and the config wants {configured:?}"
        );
        let unk = tokenizers.tgt.special().unk as i32;
        if labels.contains(&unk) {
            return Err(unknown_labels());
        }
        tracing::info!(
            "training images: {} with {} labels",
            images.len(),
            names.len()
        );
        return Ok(TrainingData::Images {
            images,
            labels,
            parts,
        });
    }
    let path = run.cache_path("train");
    let filter = plan.filter();
    // The source side of captions has names of images, which are no text.
    let is_captions = facts.reads == Reads::ImageAndTarget;
    let corpus = if is_captions {
        &text.train.clone().target_side()
    } else {
        &text.train
    };
    let mut progress = |stage, count| show_progress(observer, stage, count);
    let opened =
        IdCache::open_or_build(&path, corpus, tokenizers, filter.as_deref(), &mut progress)?;
    let (cache, report) = opened;
    observer.idle();
    if let Some(cleaned) = text.train.clean_report() {
        let (kept, pairs) = (cleaned.kept, cleaned.pairs);
        let removed = cleaned.removed_by_count();
        tracing::info!("training text, cleaned: {kept} of {pairs} pairs stay; removed: {removed}");
    }
    tracing::info!("training text: {report}");
    if facts.gives_labels() && report.tgt.unknown > 0 {
        return Err(unknown_labels());
    }
    let cache = Arc::new(cache);
    if is_captions {
        observer.activity("reading images");
        let images = Arc::new(CaptionImages::read(
            &text.train,
            &cache,
            plan.config.data.images(),
        )?);
        observer.idle();
        tracing::info!("training images: {}", images.len());
        return Ok(TrainingData::Captions { cache, images });
    }
    Ok(TrainingData::Text(cache))
}

fn unknown_labels() -> TrainError {
    let error = failed!("the training set has labels that the model does not know");
    with_hint(
        error,
        "a fork of a classifier keeps its labels; start a new run, or fork from a run without labels",
    )
}

fn show_progress(observer: &mut dyn Observer, stage: Stage, count: u64) {
    if stage == Stage::LearningVocabulary {
        tracing::info!("learning a vocabulary of at most {count} tokens");
    }
    observer.activity(&match stage {
        Stage::CountingWords => format!("counting words: {count} lines"),
        Stage::LearningVocabulary => "learning a vocabulary".to_owned(),
        Stage::Aligning => format!("aligning words: {count} %"),
        Stage::Encoding => format!("encoding: {count} pairs"),
    });
}
