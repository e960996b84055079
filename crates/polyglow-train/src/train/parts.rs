//! The parts of a training that come from its program, and not from its config: a run keeps their
//! names, and is resumed with the same parts only.

use std::any::type_name;

use polyglow_model::Model;
use polyglow_predict::error::{Result, failed, usage, with_hint};
use serde::{Deserialize, Serialize};

use crate::tasks::Task;

/// The names of the parts that come from a program; `None` where the config decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnParts {
    /// The type of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The task, [`Task::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The update rule, of [`Training::with_rule`](crate::Training::with_rule).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<String>,
    /// The schedule, of [`Training::with_schedule`](crate::Training::with_schedule).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The filters of `data.filters`, with their settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<String>,
}

impl OwnParts {
    /// Returns the names of a task and of its model; the optimizer and the schedule are those of
    /// the config.
    pub(crate) fn for_task<T: Task>(task: &T) -> Self {
        let is_built_in = type_name::<T::Model>() == type_name::<Model>();
        Self {
            model: (!is_built_in).then(short_type_name::<T::Model>),
            task: task.name(),
            ..Self::default()
        }
    }

    /// Makes sure that a run which was trained with these parts is resumed with the same.
    ///
    /// # Errors
    /// One is another (exit code 2); the message names it.
    pub(crate) fn check_same(&self, now: &Self) -> Result<()> {
        for ((part, trained), (_, now)) in self.named().into_iter().zip(now.named()) {
            if trained == now {
                continue;
            }
            let error = failed!(
                "the run was trained with {}, now with {}",
                shown(part, trained),
                shown(part, now)
            );
            let advice = "resume it with the program that began it, with the same parts, or start again in \
                          another directory";
            return Err(with_hint(usage(error), advice));
        }
        Ok(())
    }

    /// Makes sure that a model of the config's architecture was trained, which commands can load.
    ///
    /// # Errors
    /// It is a model of another program (exit code 2).
    pub(crate) fn check_model_is_built_in(&self) -> Result<()> {
        let Some(name) = &self.model else {
            return Ok(());
        };
        let error = failed!("the model of this run is `{name}`, which this program does not have");
        let advice = "use the program that trained it, which loads it by `load_runner_with`";
        Err(with_hint(usage(error), advice))
    }

    /// The parts, each after what it is called.
    fn named(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("model", self.model.as_deref()),
            ("task", self.task.as_deref()),
            ("optimizer", self.optimizer.as_deref()),
            ("schedule", self.schedule.as_deref()),
            ("filters", self.filters.as_deref()),
        ]
    }
}

fn shown(part: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the {part} `{name}`"),
        None => format!("the {part} of its config"),
    }
}

/// Returns the name of a type without the modules that it and its parameters are in: a type that
/// moves keeps it.
pub(crate) fn short_type_name<T: ?Sized>() -> String {
    let mut short = String::new();
    let mut word = String::new();
    for character in type_name::<T>().chars() {
        if character.is_alphanumeric() || character == '_' {
            word.push(character);
        } else if character == ':' {
            // What was read was the name of a module.
            word.clear();
        } else {
            short.push_str(&word);
            word.clear();
            short.push(character);
        }
    }
    short.push_str(&word);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_have_no_modules() {
        assert_eq!(short_type_name::<OwnParts>(), "OwnParts");
        assert_eq!(
            short_type_name::<Option<(OwnParts, Vec<u8>)>>(),
            "Option<(OwnParts, Vec<u8>)>"
        );
    }

    #[test]
    fn another_part_is_refused_by_its_name() {
        let momentum = OwnParts {
            optimizer: Some("momentum".to_owned()),
            ..OwnParts::default()
        };
        assert!(momentum.check_same(&momentum.clone()).is_ok());
        let error = momentum.check_same(&OwnParts::default()).unwrap_err();
        let expected = "the run was trained with the optimizer `momentum`, now with the optimizer of its config";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
