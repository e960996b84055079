//! Checks that a model is for the task of a command.

use std::path::Path;

use anyhow::anyhow;
use polyglow_model::attention::AttentionKind;
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_train::run::TrainedModel;
use polyglow_train::{Config, Plan};

use crate::failure::{usage, with_hint};

/// Checks that the run at `path` is for a wanted task.
///
/// # Errors
/// It is not (exit code 2); what it can do is said.
pub(super) fn check_plan(
    path: &Path,
    plan: &Plan,
    wanted: fn(&TaskFacts) -> bool,
) -> anyhow::Result<()> {
    check_config(path, &plan.config, wanted)
}

/// As [`check_plan`], of a config.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn check_config(
    path: &Path,
    config: &Config,
    wanted: fn(&TaskFacts) -> bool,
) -> anyhow::Result<()> {
    let facts = facts(config.model.task());
    if wanted(facts) {
        return Ok(());
    }
    let TaskFacts { does, advice, .. } = *facts;
    let arch = config.model.arch.name();
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
pub(super) fn check_task(
    model: &TrainedModel,
    wanted: fn(&TaskFacts) -> bool,
) -> anyhow::Result<()> {
    check_plan(&model.checkpoint.path, &model.plan, wanted)
}

/// Checks that models translate.
///
/// # Errors
/// As [`check_plan`].
pub(super) fn check_translates(models: &[TrainedModel]) -> anyhow::Result<()> {
    models
        .iter()
        .try_for_each(|model| check_task(model, TaskFacts::translates))
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
