//! The share of lines of the training text that hold several sentences, by which `translate` warns.

use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_predict::sentences::count;
use polyglow_train::Plan;

/// Lines that are looked at, from the start of each file.
const LINES: usize = 2_000;

/// The share of source lines that hold several sentences, 0 to 1, by a sample; `None` if the text
/// is not of pairs.
pub(super) fn share_of_several(plan: &Plan, train: &Corpus) -> Result<Option<f64>, DataError> {
    if !plan.content.is_parallel() {
        return Ok(None);
    }
    let language = plan.config.data.languages().map_or("", |(src, _)| src);
    let per_part = LINES.div_ceil(train.parts().len().max(1));
    let mut lines = 0_usize;
    let mut several = 0_usize;
    for part in train.parts() {
        for pair in part.pairs()?.take(per_part) {
            let sentences = count(&pair?.src, language);
            lines += usize::from(sentences > 0);
            several += usize::from(sentences > 1);
        }
    }
    Ok((lines > 0).then(|| several as f64 / lines as f64))
}
