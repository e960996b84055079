//! What a model is used for, by its task: the one table behind checks, their hints, and what to
//! type next.

use std::path::Path;

use anyhow::anyhow;
use polyglow_model::Task;
use polyglow_model::attention::AttentionKind;
use polyglow_train::run::TrainedModel;
use polyglow_train::{Config, Plan};

use crate::failure::{usage, with_hint};

/// How models of a task are used.
pub(super) struct Use {
    /// What such a model does, after "which".
    does: &'static str,
    /// Which commands are for it.
    advice: &'static str,
    /// The command that uses it, with `{run}` for its directory.
    pub(super) command: &'static str,
    /// What is to be known about that command.
    pub(super) note: &'static str,
}

/// The table.
pub(super) fn of_task(task: Task) -> Use {
    let (does, advice, command, note) = match task {
        Task::Translation => (
            "translates",
            "`polyglow translate` is for it, and `polyglow evaluate` scores it",
            "translate {run}",
            "then type sentences, one per line",
        ),
        Task::Language => (
            "has no source",
            "`polyglow generate` writes text with it, `polyglow evaluate` scores it",
            "generate {run}",
            "",
        ),
        Task::Words => (
            "has no source",
            "`polyglow embeddings` explores its vectors, `polyglow evaluate` scores it",
            "embeddings {run} plot --out words.html",
            "",
        ),
        Task::Labels => (
            "gives labels",
            "`polyglow classify` says what something is, `polyglow evaluate` scores it",
            "classify {run}",
            "then type sentences, one per line",
        ),
        Task::Images => (
            "gives labels",
            "`polyglow classify` says what something is, `polyglow evaluate` scores it",
            "classify {run} IMAGE.png",
            "",
        ),
        Task::Captions => (
            "describes images",
            "`polyglow caption` says what is on an image, `polyglow evaluate` scores it",
            "caption {run} IMAGE.png",
            "",
        ),
        Task::Masked => (
            "finds hidden tokens",
            "`polyglow evaluate` scores it, and `polyglow train CONFIG --run RUN --fork NEW_RUN` teaches it labels",
            "train CONFIG --run {run} --fork NEW_RUN",
            "to teach it labels",
        ),
    };
    Use {
        does,
        advice,
        command,
        note,
    }
}

/// Checks that the run at `path` is for a wanted task.
///
/// # Errors
/// It is not (exit code 2); what it can do is said.
pub(super) fn check_plan(path: &Path, plan: &Plan, wanted: fn(Task) -> bool) -> anyhow::Result<()> {
    check_config(path, &plan.config, wanted)
}

/// As [`check_plan`], of a config.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn check_config(
    path: &Path,
    config: &Config,
    wanted: fn(Task) -> bool,
) -> anyhow::Result<()> {
    let task = config.model.task();
    if wanted(task) {
        return Ok(());
    }
    let (Use { does, advice, .. }, arch) = (of_task(task), config.model.arch.name());
    let error = anyhow!(
        "`{}` has `model.arch = \"{arch}\"`, which {does}",
        path.display()
    );
    Err(with_hint(usage(error), advice))
}

/// Checks that a model is for a wanted task.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn check_task(model: &TrainedModel, wanted: fn(Task) -> bool) -> anyhow::Result<()> {
    check_plan(&model.checkpoint.path, &model.plan, wanted)
}

/// Checks that models translate.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn check_translates(models: &[TrainedModel]) -> anyhow::Result<()> {
    models
        .iter()
        .try_for_each(|model| check_task(model, |task| task == Task::Translation))
}

/// Checks that a model shows where in the source it looks.
///
/// # Errors
/// It has no attention to the source (exit code 2).
pub(super) fn check_attends(model: &TrainedModel) -> anyhow::Result<()> {
    let (num_layers, _) = model.model.shape().attention(AttentionKind::Cross);
    if num_layers == 0 {
        let path = model.checkpoint.path.display();
        let error = anyhow!(
            "`{path}` has no attention to the source, so its words cannot be aligned with source words"
        );
        return Err(with_hint(
            usage(error),
            "leave `--replace-unknown` or `--alignments` out",
        ));
    }
    Ok(())
}
