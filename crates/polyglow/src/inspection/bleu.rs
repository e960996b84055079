//! Whether BLEU's tokenizer suits the target text.

use polyglow_train::Result;
use polyglow_train::train::Training;

use super::Warning;
use crate::commands::metrics::PHRASES;

/// Warns of a tokenizer that hardly splits the text, for want of spaces: BLEU is then near 0
/// whatever is learned.
///
/// # Errors
/// The text cannot be read.
pub(super) fn find(training: &Training) -> Result<Option<Warning>> {
    let Training {
        plan, text, bleu, ..
    } = training;
    if !plan.task.facts().has_references() {
        return Ok(None);
    }
    let share = bleu.unsplit_share(text.some_targets()?.iter().map(String::as_str));
    if share <= PHRASES {
        return Ok(None);
    }
    let message = format!(
        "`train.tokenize = \"{}\"` leaves {:.0} % of the target's letters, which are of a script without spaces, in words of \
         more than 10",
        bleu.name(),
        100.0 * share
    );
    let hint = "BLEU then compares whole phrases and is near 0, and so may `best` be wrong; leave the key out, or take \"char\"";
    Ok(Some(Warning {
        message,
        hint: hint.to_owned(),
    }))
}
