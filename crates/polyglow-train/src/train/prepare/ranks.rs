//! Checks before ranks train together: one config, work for every rank, the same tokenizers, the
//! same text.

use std::path::Path;

use polyglow_data::config::TargetKind;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use polyglow_predict::group::Group;

use super::Text;
use crate::config::{Config, Difference};
use crate::run::{TextHashes, sha256};

/// Keys that may differ between ranks: each rank has a device of its own, and rank 0 alone reads
/// the tokenizer's file, whose content it shares.
const OF_A_RANK: [&str; 2] = ["device", "tokenizer.path"];
/// Paths that may differ between ranks if what is read from them is the same, which is compared by
/// hashes.
const COMPARED_BY_CONTENT: [&str; 2] = ["data.train", "data.valid"];

/// Makes sure that all ranks train with the config of rank 0. Nothing may be exchanged before: with
/// another number of steps, saves or micro-batches a rank would come to other exchanges, and they
/// would deadlock.
///
/// # Errors
/// A rank has another config: which keys differ, and their values (exit code 2), in every rank.
pub fn check_one_config(group: &dyn Group, config: &Config) -> Result<()> {
    if group.is_alone() {
        return Ok(());
    }
    let own = config.to_toml();
    let first = group.share(|| config.to_toml())?;
    let differences = own.and_then(|own| differences(&own, &first));
    let mut others = Vec::new();
    for (rank, differences) in group.gather_results(differences)?.into_iter().enumerate() {
        let differences: Vec<(String, String, String)> =
            differences.map_err(|error| error.context(group.name(rank)))?;
        others.push((rank, differences));
    }
    others.retain(|(_, differences)| !differences.is_empty());
    let others: Vec<String> = others
        .iter()
        .map(|(rank, differences)| other_config(&group.name(*rank), differences))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let error = failed!("the ranks have different configs: {}", others.join("; "));
    Err(with_hint(
        usage(error),
        "copy the config of rank 0 to the other machines, and give every rank the same `--set`",
    ))
}

/// Lists the keys in which a rank's config differs from that of rank 0, with the values of both.
fn differences(own: &str, first: &str) -> Result<Vec<(String, String, String)>> {
    let own = Config::parse(own)?;
    let first = Config::parse(first).context("the config of rank 0")?;
    let differences = own.differences(&first)?.into_iter().filter(matters);
    Ok(differences
        .map(|Difference { key, ours, theirs }| (key, ours, theirs))
        .collect())
}

/// Returns whether a difference between the configs of two ranks changes the training.
fn matters(Difference { key, ours, theirs }: &Difference) -> bool {
    let are_paths = ours.starts_with('"') && theirs.starts_with('"');
    let is_compared_by_content = are_paths && COMPARED_BY_CONTENT.contains(&&**key);
    !is_compared_by_content && !OF_A_RANK.contains(&&**key)
}

/// Describes a rank's config: `rank 1 on b has `train.lr = 0.1` (rank 0: `0.2`)`.
fn other_config(name: &str, differences: &[(String, String, String)]) -> String {
    let values = differences
        .iter()
        .map(|(key, own, first)| format!("`{key} = {own}` (rank 0: `{first}`)"));
    format!("{name} has {}", values.collect::<Vec<_>>().join(", "))
}

/// Makes sure that every process has a part of a step.
pub(super) fn check_share(group: &dyn Group, config: &Config) -> Result<()> {
    let size = group.size();
    let window = config.train.accumulate_steps;
    if group.is_alone() || size <= window {
        return Ok(());
    }
    let error = failed!(
        "{size} ranks have nothing to share: `train.accumulate_steps = {window}` is all that a step has"
    );
    let advice = format!(
        "`train.accumulate_steps` counts the micro-batches of a step over all ranks: set it to {size} or a multiple, and \
         `train.max_tokens` to what one rank takes at a time"
    );
    Err(with_hint(usage(error), advice))
}

/// Returns in every rank the tokenizers of rank 0, which are learned or read there by `find`.
pub(super) fn shared_tokenizers(
    group: &dyn Group,
    text: &Text,
    find: impl FnOnce() -> Result<(Tokenizers, TextHashes)>,
) -> Result<(Tokenizers, TextHashes)> {
    if group.is_alone() {
        return find();
    }
    let mut own = None;
    let shared = group.share(|| {
        let (tokenizers, hashes) = own.insert(find()?);
        let tgt = if tokenizers.is_shared() {
            None
        } else {
            Some(tokenizers.tgt.to_json()?)
        };
        Ok((tokenizers.src.to_json()?, tgt, hashes_of_content(hashes)))
    })?;
    let (src, tgt, first) = shared;
    let own = if let Some(own) = own {
        own
    } else {
        let tokenizers = Tokenizers::parse(src.as_bytes(), tgt.as_ref().map(String::as_bytes))?;
        let hashes = text.hashes(&tokenizers)?;
        (tokenizers, hashes)
    };
    check_same_content(group, text, &hashes_of_content(&own.1), &first)?;
    Ok(own)
}

/// Makes sure that the hashes of every rank are those of rank 0.
fn check_same_content(
    group: &dyn Group,
    text: &Text,
    own: &[String; 3],
    first: &[String; 3],
) -> Result<()> {
    let difference = own.iter().zip(first).position(|(own, first)| own != first);
    let mut differences = group.gather(difference)?.into_iter().enumerate();
    let Some((rank, difference)) = differences.find_map(|(rank, index)| Some((rank, index?)))
    else {
        return Ok(());
    };
    let content = text.train.content();
    let data = match (content.has_images(), content.target) {
        (false, _) => "text",
        (true, TargetKind::Text) => "text or set of images",
        (true, _) => "set of images",
    };
    let what = match difference {
        0 => format!("another training {data} (`data.train`)"),
        1 => format!("another validation {data} (`data.valid`)"),
        _ => "other images of the same captions".to_owned(),
    };
    let error = failed!("{} reads {what} than rank 0", group.name(rank));
    Err(with_hint(
        error,
        "the files of all machines must be the same, at the same paths",
    ))
}

/// Returns the hashes that ranks compare: of the training data, of the validation data, and of the
/// images that have captions.
fn hashes_of_content(hashes: &TextHashes) -> [String; 3] {
    // Ranks may have the same images at different paths, which need not be in the same order: only
    // the names of their files count.
    let mut images = Vec::with_capacity(hashes.images.len());
    for (path, hash) in &hashes.images {
        let name = Path::new(path).file_name().unwrap_or_default();
        images.push(format!("{hash}  {}", name.to_string_lossy()));
    }
    images.sort_unstable();
    [
        hashes.train.clone(),
        hashes.valid.clone(),
        sha256(images.join("\n").as_bytes()),
    ]
}
