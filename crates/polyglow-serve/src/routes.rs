//! The languages of the models, and the models that lead from one language to another.

use std::error::Error;

use polyglow_predict::runner::Runner;

/// A function that loads a model again.
pub type Reload = Box<dyn Fn() -> Result<Runner, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// A model and its languages.
pub struct Model {
    /// Code of the language that it reads, as in `en` or `zh-Hans`.
    pub source: String,
    /// Code of the language that it writes.
    pub target: String,
    /// The model itself.
    pub runner: Runner,
    /// Loads the model again, or a newer one in its place.
    pub reload: Reload,
}

/// The languages of all models.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Source and target of each model.
    pairs: Vec<(String, String)>,
}

impl Routes {
    pub(crate) fn new(models: &[Model]) -> Self {
        let pairs = models
            .iter()
            .map(|model| (model.source.clone(), model.target.clone()))
            .collect();
        Self { pairs }
    }

    /// Returns the languages of a model, for messages.
    pub(crate) fn name(&self, model: usize) -> String {
        let (source, target) = &self.pairs[model];
        format!("{source}-{target}")
    }

    /// Returns the language that a model reads.
    pub(crate) fn source(&self, model: usize) -> &str {
        &self.pairs[model].0
    }

    /// Returns all languages, in the order of the models.
    pub(crate) fn languages(&self) -> Vec<String> {
        let pairs = self.pairs.iter();
        distinct(pairs.flat_map(|(source, target)| [source, target]))
    }

    /// Returns the languages that can be translated.
    pub(crate) fn sources(&self) -> Vec<String> {
        distinct(self.pairs.iter().map(|(source, _)| source))
    }

    /// Returns the languages that a language can be translated to: itself, those that a model
    /// writes, and those that two models write one after the other.
    pub(crate) fn targets(&self, source: &str) -> Vec<String> {
        self.languages()
            .into_iter()
            .filter(|target| self.find(source, target).is_some())
            .collect()
    }

    /// Returns the code that models have for a language. Case does not matter, and `en-US` is `en`
    /// if no model has it.
    pub(crate) fn language(&self, code: &str) -> Option<String> {
        if let Some(known) = self.known(code) {
            return Some(known);
        }
        let (language, _variant) = code.split_once('-')?;
        self.known(language)
    }

    /// Returns the code of a model that equals `code` but for case.
    fn known(&self, code: &str) -> Option<String> {
        self.languages()
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(code))
    }

    /// Returns the languages of the model if there is only one.
    pub(crate) fn only(&self) -> Option<(String, String)> {
        if let [pair] = &self.pairs[..] {
            Some(pair.clone())
        } else {
            None
        }
    }

    /// Returns the model from one language to another.
    pub(crate) fn direct(&self, from: &str, to: &str) -> Option<usize> {
        self.pairs
            .iter()
            .position(|(source, target)| source == from && target == to)
    }

    /// Returns the models that lead from one language to another, one after the other: none if the
    /// languages are the same, one model if there is one for them, or two over a pivot language.
    pub(crate) fn find(&self, source: &str, target: &str) -> Option<Vec<usize>> {
        if source == target {
            return Some(Vec::new());
        }
        if let Some(model) = self.direct(source, target) {
            return Some(vec![model]);
        }
        // At most two models: each adds its errors to those of the one before.
        for (first, (from, pivot)) in self.pairs.iter().enumerate() {
            if from == source
                && let Some(second) = self.direct(pivot, target)
            {
                return Some(vec![first, second]);
            }
        }
        None
    }
}

/// Returns codes without repetitions, in the order of their first occurrence.
fn distinct<'a>(codes: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for code in codes {
        if !distinct.contains(code) {
            distinct.push(code.clone());
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pivot_language_is_between_two_that_no_model_connects() {
        let pairs = [("de", "en"), ("en", "fr"), ("en", "de"), ("fr", "it")];
        let routes = Routes {
            pairs: pairs
                .iter()
                .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
                .collect(),
        };
        for (source, target, expected) in [
            ("de", "en", Some(vec![0])),
            ("de", "fr", Some(vec![0, 1])),
            ("de", "de", Some(vec![])),
            ("fr", "de", None),
            ("de", "it", None),
        ] {
            assert_eq!(
                routes.find(source, target),
                expected,
                "{source} to {target}"
            );
        }
        assert_eq!(routes.targets("de"), ["de", "en", "fr"]);
        assert_eq!(routes.targets("it"), ["it"]);
        assert_eq!(routes.sources(), ["de", "en", "fr"]);
        for (code, expected) in [
            ("DE", Some("de")),
            ("en-US", Some("en")),
            ("x", None),
            ("pt-BR", None),
        ] {
            assert_eq!(routes.language(code).as_deref(), expected, "{code}");
        }
    }
}
