//! The rules by which pairs are left out of training: those of a config's lengths, and those that a
//! program has registered.

use polyglow_data::example::{Candidate, Filter, Reason, configured_filter};
use polyglow_model::ModelError;
use polyglow_model::registry::{Named, Table};
use polyglow_predict::error::{Result, failed, with_hint};
use polyglow_predict::suggestion::nearest;

use crate::plan::Plan;

/// A row of the table of filters.
struct FilterRow {
    name: &'static str,
    filter: Box<dyn Filter>,
}

/// There are none but those that a program adds: the built-in filter has keys of its own,
/// `data.max_len` and `data.max_length_ratio`.
static TABLE: Table<FilterRow> = Table::new("data.filters", &[]);

impl Named for FilterRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Registers a filter, which a config chooses by `data.filters = ["NAME"]`. A run keeps its settings
/// ([`Filter::settings`]), and is resumed only with the same.
///
/// ```
/// use polyglow_data::example::{Candidate, Filter, Reason};
/// use polyglow_train::{Config, Silent, Training, register_filter};
///
/// struct NoTens;
///
/// impl Filter for NoTens {
///     fn reject(&self, candidate: &Candidate) -> Option<Reason> {
///         let tens = Reason { key: "tens", title: "with a ten" };
///         candidate.pair.src.contains("10").then_some(tens)
///     }
///
///     fn settings(&self) -> String {
///         "no tens".to_owned()
///     }
/// }
///
/// register_filter("no-tens", NoTens)?;
/// let text = "data = { corpus = 'digits', filters = ['no-tens'] }
///     tokenizer.kind = 'word'
///     train.max_steps = 2";
/// assert!(Config::from_text(&text.replace("no-tens", "no-ten"), &[]).is_err());
/// # let dir = tempfile::tempdir()?;
/// let training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// # drop(training);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The name is no word in lower case, or that of another filter.
pub fn register_filter(
    name: &'static str,
    filter: impl Filter + 'static,
) -> std::result::Result<(), ModelError> {
    TABLE.register(Box::new(FilterRow {
        name,
        filter: Box::new(filter),
    }))
}

/// Checks that the program has every filter that a config names.
///
/// # Errors
/// One is unknown; the message names it and those that there are.
pub(crate) fn check_names(names: &[String]) -> Result<()> {
    for name in names {
        if TABLE.find(name).is_some() {
            continue;
        }
        let known: Vec<&str> = TABLE.rows().into_iter().map(Named::name).collect();
        let near = nearest(name, known.iter().copied());
        let error = if known.is_empty() {
            failed!("`data.filters`: there is no filter `{name}`; this program has none")
        } else {
            failed!(
                "`data.filters`: there is no filter `{name}`, but `{}`",
                known.join("`, `")
            )
        };
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "a filter of another program is known to that program alone".to_owned(),
        };
        return Err(with_hint(error, hint));
    }
    Ok(())
}

/// Filters that are asked one after the other.
struct Filters {
    by_length: Option<Box<dyn Filter>>,
    own: Vec<&'static FilterRow>,
}

impl Filter for Filters {
    fn reject(&self, candidate: &Candidate) -> Option<Reason> {
        let by_length = self.by_length.iter();
        let own = self.own.iter().map(|row| &row.filter);
        by_length
            .chain(own)
            .find_map(|filter| filter.reject(candidate))
    }

    fn settings(&self) -> String {
        let by_length = self.by_length.iter().map(|filter| filter.settings());
        let own = self.own.iter().map(|row| row.filter.settings());
        by_length.chain(own).collect::<Vec<_>>().join("; ")
    }
}

impl Plan {
    /// Returns the filter of training pairs that the config asks for, if it asks for any: by their
    /// lengths, then those of `data.filters` in their order.
    pub fn filter(&self) -> Option<Box<dyn Filter>> {
        let data = &self.config.data;
        let by_length = configured_filter(data, self.content);
        let own = chosen(&data.filters);
        if own.is_empty() {
            return by_length;
        }
        Some(Box::new(Filters { by_length, own }))
    }

    /// Returns the names and the settings of the registered filters that the config chooses.
    pub(crate) fn own_filters(&self) -> Option<String> {
        let own = chosen(&self.config.data.filters);
        let settings: Vec<String> = own
            .iter()
            .map(|row| format!("{} ({})", row.name, row.filter.settings()))
            .collect();
        (!settings.is_empty()).then(|| settings.join(", "))
    }
}

/// Returns the rows of these names, which have been checked.
fn chosen(names: &[String]) -> Vec<&'static FilterRow> {
    names.iter().filter_map(|name| TABLE.find(name)).collect()
}
