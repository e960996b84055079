//! Trained models, loaded from run directories.

use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::Model;
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use polyglow_predict::model::{check_beam, load_weights};
use polyglow_predict::runner::{Member, Runner};

use super::RunDirectory;
use crate::plan::Plan;
use crate::run::Checkpoint;

/// A trained model with all that is needed to use it.
pub struct TrainedModel {
    /// The plan of the run, on the device where the model is.
    pub plan: Plan,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The model, on a device that does not differentiate.
    pub model: Model,
    /// The checkpoint that the weights came from.
    pub checkpoint: Checkpoint,
}

impl TrainedModel {
    /// Loads the model at `path`: the best checkpoint of a run directory, or a checkpoint in one.
    ///
    /// # Errors
    /// There is neither at `path`; or as [`RunDirectory::load`].
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let (run, checkpoint) = run_of(path)?;
        run.load(&checkpoint, device)
    }
}

/// Returns the run and the checkpoint that `path` means: a run's best, or a checkpoint in one.
fn run_of(path: &Path) -> Result<(RunDirectory, String)> {
    // A checkpoint is at `RUN/checkpoints/NAME`.
    match path.parent().and_then(Path::parent) {
        Some(run) if Checkpoint::is_at(path) => Ok((
            RunDirectory::existing(run)?,
            path.to_string_lossy().into_owned(),
        )),
        _ => Ok((RunDirectory::existing(path)?, "best".to_owned())),
    }
}

/// Loads the model at `path`, the best checkpoint of a run directory or a checkpoint in one, to be
/// searched as the run's config says, unless a request has other options.
///
/// ```
/// use polyglow_model::search::SearchRequest;
/// use polyglow_train::{Config, Silent, Stop, Training, device, load_runner};
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let mut training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// training.run(&Stop::default(), &mut Silent)?;
///
/// let runner = load_runner(dir.path(), &device::open("flex")?)?;
/// let search = SearchRequest { beam_size: Some(2), ..SearchRequest::default() };
/// let translations = runner.best_for(&["1 2 3", "", "4"], &search)?;
/// assert_eq!((translations.len(), &*translations[1]), (3, ""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`TrainedModel::load`].
pub fn load_runner(path: impl AsRef<Path>, device: &Device) -> Result<Runner> {
    let model = TrainedModel::load(path.as_ref(), device)?;
    let plan = model.plan.clone();
    runner(vec![model], &plan)
}

/// As [`load_runner`], for a model of the caller's own. `model` makes it for these tokenizers on this
/// device; its weights are replaced by those of the checkpoint, and computed with in 32 bits also
/// where their matrices have 8.
///
/// # Errors
/// As [`RunDirectory::load`].
pub fn load_runner_with<M: Module>(
    path: impl AsRef<Path>,
    device: &Device,
    model: impl FnOnce(&Tokenizers, &Device) -> M,
) -> Result<Runner<M>> {
    let (run, checkpoint) = run_of(path.as_ref())?;
    let plan = Plan::on(run.config()?, device.clone(), None);
    let tokenizers = run.tokenizers()?;
    let (checkpoint, weights) = run.weights(&checkpoint)?;
    run.check_tokenizers(&checkpoint, &tokenizers)?;
    let model = load_weights(model(&tokenizers, device), weights)?;
    let longest = plan.model_shape(&tokenizers)?.vocabulary().max_len - 1;
    let options = plan.runner_options(plan.config.search.clone(), longest);
    Ok(Runner::new(model, &tokenizers, options))
}

/// Makes a runner of these models, at least one, which all have the same target vocabulary. `plan`
/// is that of the first, which the caller may change to have another search or other sizes.
///
/// # Errors
/// The tasks, the target languages or the target vocabularies differ; the beam is wider than the
/// vocabulary (exit code 2).
pub fn runner(models: Vec<TrainedModel>, plan: &Plan) -> Result<Runner> {
    let first = models.first().context("there is no model")?;
    let tgt = Arc::clone(&first.tokenizers.tgt);
    for other in &models[1..] {
        if let Some(why) = obstacle(first, other)? {
            let error = failed!(
                "`{}` and `{}` cannot be an ensemble: {why}",
                first.checkpoint.path.display(),
                other.checkpoint.path.display()
            );
            let advice = "an ensemble is of models of the same languages with the same tokenizer: train the second with \
                          `tokenizer.path` set to the first run's `tokenizer.json`, and another `seed` or `[model]`";
            return Err(with_hint(usage(error), advice));
        }
    }
    check_beam(&plan.config.search, &first.tokenizers)?;
    // Without EOS. An ensemble reads what all of its members can read.
    let lens = models
        .iter()
        .map(|model| model.model.vocabulary().max_len - 1);
    let longest = lens.min().unwrap_or(0);
    let mut members = Vec::with_capacity(models.len());
    for model in models {
        members.push(Member {
            model: model.model,
            src: model.tokenizers.src,
        });
    }
    let options = plan.runner_options(plan.config.search.clone(), longest);
    Runner::from_members(members, tgt, options).with_tags(plan.config.data.tags())
}

/// Says why two models cannot be an ensemble; returns `None` if they can.
fn obstacle(first: &TrainedModel, other: &TrainedModel) -> Result<Option<String>> {
    let facts = first.plan.task.facts();
    if other.plan.task.facts().name != facts.name {
        return Ok(Some("they were trained for different tasks".to_owned()));
    }
    let shapes = [first, other].map(|model| model.plan.config.data.images().shape());
    if facts.reads_images() && shapes[0] != shapes[1] {
        return Ok(Some("they read images of different sizes".to_owned()));
    }
    if let (Some(ours), Some(theirs)) = (target_language(first), target_language(other))
        && ours != theirs
    {
        return Ok(Some(format!("one writes `{ours}`, the other `{theirs}`")));
    }
    if other.tokenizers.tgt.to_json()? != first.tokenizers.tgt.to_json()? {
        return Ok(Some("their target vocabularies differ".to_owned()));
    }
    Ok(None)
}

fn target_language(model: &TrainedModel) -> Option<&str> {
    let (_, tgt) = model.plan.config.data.languages().ok()?;
    Some(tgt)
}
