//! What a training needs to be shared: work for every rank, the same tokenizers, the same text.

use polyglow_data::tokenizer::Tokenizers;

use super::Text;
use crate::config::Config;
use crate::error::{Result, failed, usage, with_hint};
use crate::group::Group;
use crate::run::TextHashes;

/// Makes sure that every process has a part of a step.
pub(super) fn check_share(group: &dyn Group, config: &Config) -> Result<()> {
    let (size, window) = (group.size(), config.train.accumulate_steps);
    if size <= window {
        return Ok(());
    }
    let error =
        failed!("{size} ranks have nothing to share: `train.accumulate_steps = {window}` is all that a step has");
    let advice = format!(
        "`train.accumulate_steps` counts the micro-batches of a step over all ranks: set it to {size} or a multiple, and \
         `train.max_tokens` to what one rank takes at a time"
    );
    Err(with_hint(usage(error), advice))
}

/// The tokenizers of rank 0, which are learned or read there, in every rank.
pub(super) fn shared_tokenizers(
    group: &dyn Group,
    text: &Text,
    find: impl FnOnce() -> Result<(Tokenizers, TextHashes)>,
) -> Result<(Tokenizers, TextHashes)> {
    if group.is_alone() {
        return find();
    }
    let mut own = None;
    let (src, tgt, told) = group.share(|| {
        let (tokenizers, hashes) = own.insert(find()?);
        let tgt = if tokenizers.is_shared() { None } else { Some(tokenizers.tgt.to_json()?) };
        Ok((tokenizers.src.to_json()?, tgt, [hashes.train.clone(), hashes.valid.clone()]))
    })?;
    let (tokenizers, hashes) = if let Some(own) = own {
        own
    } else {
        let tokenizers = Tokenizers::parse(src.as_bytes(), tgt.as_ref().map(String::as_bytes))?;
        let hashes = text.hashes(&tokenizers)?;
        (tokenizers, hashes)
    };
    let same = (hashes.train == told[0], hashes.valid == told[1]);
    for (rank, same) in group.gather(same)?.into_iter().enumerate() {
        let what = match same {
            (true, true) => continue,
            (false, _) => "training text (`data.train`)",
            (true, false) => "validation text (`data.valid`)",
        };
        let error = failed!("{} reads another {what} than rank 0", group.name(rank));
        return Err(with_hint(error, "the files of all machines must be the same, at the same paths"));
    }
    Ok((tokenizers, hashes))
}
