//! Which models lead from one language to another.

use std::error::Error;

use polyglow_predict::runner::Runner;

/// How a model is loaded again.
pub type Reload = Box<dyn Fn() -> Result<Runner, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// A model, and the languages that it is for.
pub struct Model {
    /// Code of the language that it reads, as in `en` or `zh-Hans`.
    pub source: String,
    /// Code of the language that it writes.
    pub target: String,
    /// The model itself.
    pub runner: Runner,
    /// Loads it again, or a better one.
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
        Self {
            pairs: models
                .iter()
                .map(|model| (model.source.clone(), model.target.clone()))
                .collect(),
        }
    }

    /// The languages of a model, for messages.
    pub(crate) fn name(&self, model: usize) -> String {
        let (source, target) = &self.pairs[model];
        format!("{source}-{target}")
    }

    /// The language that a model reads.
    pub(crate) fn source(&self, model: usize) -> &str {
        &self.pairs[model].0
    }

    /// All languages, in the order of the models.
    pub(crate) fn languages(&self) -> Vec<String> {
        distinct(
            self.pairs
                .iter()
                .flat_map(|(source, target)| [source, target]),
        )
    }

    /// What can be translated.
    pub(crate) fn sources(&self) -> Vec<String> {
        distinct(self.pairs.iter().map(|(source, _)| source))
    }

    /// What a language can be translated to: itself, what a model writes, and what two models write
    /// one after the other.
    pub(crate) fn targets(&self, source: &str) -> Vec<String> {
        self.languages()
            .into_iter()
            .filter(|target| self.find(source, target).is_some())
            .collect()
    }

    /// A language as the models call it; codes do not depend on case, and `en-US` is `en` where no
    /// model knows it.
    pub(crate) fn language(&self, code: &str) -> Option<String> {
        let find = |code: &str| {
            self.languages()
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(code))
        };
        find(code).or_else(|| find(code.split_once('-')?.0))
    }

    /// The languages of the only model, if it is that.
    pub(crate) fn only(&self) -> Option<(String, String)> {
        if let [pair] = &self.pairs[..] {
            Some(pair.clone())
        } else {
            None
        }
    }

    /// The model from one language to another.
    pub(crate) fn direct(&self, from: &str, to: &str) -> Option<usize> {
        self.pairs
            .iter()
            .position(|(source, target)| source == from && target == to)
    }

    /// The models that lead from one language to another, one after the other: none if they are the
    /// same, or one if there is one, or two over a third language.
    pub(crate) fn find(&self, source: &str, target: &str) -> Option<Vec<usize>> {
        if source == target {
            return Some(Vec::new());
        }
        if let Some(model) = self.direct(source, target) {
            return Some(vec![model]);
        }
        let from_source = (0..)
            .zip(&self.pairs)
            .filter(|(_, (from, _))| from == source);
        from_source
            .into_iter()
            .find_map(|(first, (_, between))| Some(vec![first, self.direct(between, target)?]))
    }
}

fn distinct<'a>(codes: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for code in codes {
        if !found.contains(code) {
            found.push(code.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_language_is_between_two_that_no_model_connects() {
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
